// Suggestions under the search box (the combobox pattern of WAI-ARIA), and "/" to come back to it.
// The page works without this file.
"use strict";
(() => {
  const box = document.querySelector("input[data-suggest]");
  if (!box) return;

  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    box.focus();
    box.select();
  });

  const list = document.createElement("ul");
  list.id = "suggestions";
  list.className = "suggestions";
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", box.dataset.suggest);
  list.hidden = true;
  box.parentNode.append(list);
  box.setAttribute("role", "combobox");
  box.setAttribute("aria-autocomplete", "list");
  box.setAttribute("aria-expanded", "false");
  box.setAttribute("aria-controls", list.id);

  const WAIT_MS = 120; // Between two keys of a quick typist.
  let timer = 0;
  let request = null;
  let typed = box.value;
  let active = -1;

  const close = () => {
    list.hidden = true;
    list.replaceChildren();
    active = -1;
    box.setAttribute("aria-expanded", "false");
    box.removeAttribute("aria-activedescendant");
  };

  const cancel = () => {
    clearTimeout(timer);
    if (request) request.abort();
    request = null;
  };

  const activate = (index) => {
    const options = list.children;
    if (active >= 0) options[active].setAttribute("aria-selected", "false");
    active = index;
    if (index < 0) {
      box.value = typed;
      box.removeAttribute("aria-activedescendant");
      return;
    }
    options[index].setAttribute("aria-selected", "true");
    box.setAttribute("aria-activedescendant", options[index].id);
    box.value = options[index].textContent;
  };

  const show = (texts) => {
    close();
    if (!texts.length || document.activeElement !== box) return;
    texts.forEach((text, index) => {
      const option = document.createElement("li");
      option.id = `suggestion-${index}`;
      option.setAttribute("role", "option");
      option.setAttribute("aria-selected", "false");
      option.dir = "auto";
      option.textContent = text;
      option.addEventListener("mousedown", (event) => {
        event.preventDefault(); // Keeps the focus in the box.
        box.value = text;
        close();
        box.form.requestSubmit();
      });
      list.append(option);
    });
    list.hidden = false;
    box.setAttribute("aria-expanded", "true");
  };

  const ask = async (text) => {
    cancel();
    request = new AbortController();
    try {
      const answer = await fetch(`/api/v1/suggest?q=${encodeURIComponent(text)}`, { signal: request.signal });
      if (!answer.ok) return close();
      const { suggestions } = await answer.json();
      show(suggestions.filter((one) => one !== text));
    } catch (error) {
      if (error.name !== "AbortError") close();
    }
  };

  box.addEventListener("input", () => {
    typed = box.value;
    cancel();
    const text = typed.trim();
    if (!text) return close();
    timer = setTimeout(() => ask(text), WAIT_MS);
  });

  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !list.hidden) {
      event.preventDefault();
      box.value = typed;
      close();
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && !list.hidden) {
      event.preventDefault();
      const count = list.children.length;
      const step = event.key === "ArrowDown" ? 1 : -1;
      // One place more than there are options: the box itself.
      activate(((active + 1 + step + count + 1) % (count + 1)) - 1);
    }
  });

  box.addEventListener("blur", () => {
    cancel();
    close();
  });
  box.form.addEventListener("submit", cancel);
})();
