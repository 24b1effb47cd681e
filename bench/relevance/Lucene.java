// Lucene as an engine to compare with: java -cp LUCENE_JARS Lucene.java K1 B DOCUMENTS QUERIES RUN
//
// English analysis and BM25 as Lucene ships them, any of the words, title and text as one field. Needs lucene-core
// and lucene-analyzers-common of version 8 (Debian: liblucene8-java).

import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.lucene.analysis.Analyzer;
import org.apache.lucene.analysis.TokenStream;
import org.apache.lucene.analysis.en.EnglishAnalyzer;
import org.apache.lucene.analysis.tokenattributes.CharTermAttribute;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.StoredField;
import org.apache.lucene.document.TextField;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.Term;
import org.apache.lucene.search.BooleanClause;
import org.apache.lucene.search.BooleanQuery;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.ScoreDoc;
import org.apache.lucene.search.TermQuery;
import org.apache.lucene.search.similarities.BM25Similarity;
import org.apache.lucene.store.ByteBuffersDirectory;

public class Lucene {
    static final int DEPTH = 1000;

    public static void main(String[] args) throws Exception {
        var similarity = new BM25Similarity(Float.parseFloat(args[0]), Float.parseFloat(args[1]));
        var analyzer = new EnglishAnalyzer();
        var directory = new ByteBuffersDirectory();
        var config = new IndexWriterConfig(analyzer);
        config.setSimilarity(similarity);
        try (var writer = new IndexWriter(directory, config)) {
            for (String line : Files.readAllLines(Path.of(args[2]), StandardCharsets.UTF_8)) {
                int tab = line.indexOf('\t');
                var document = new Document();
                document.add(new StoredField("id", line.substring(0, tab)));
                document.add(new TextField("text", line.substring(tab + 1), Field.Store.NO));
                writer.addDocument(document);
            }
            writer.forceMerge(1);
        }
        var searcher = new IndexSearcher(DirectoryReader.open(directory));
        searcher.setSimilarity(similarity);
        BooleanQuery.setMaxClauseCount(100_000);
        try (var run = new PrintWriter(args[4], StandardCharsets.UTF_8)) {
            for (String line : Files.readAllLines(Path.of(args[3]), StandardCharsets.UTF_8)) {
                int tab = line.indexOf('\t');
                String number = line.substring(0, tab);
                int rank = 0;
                for (ScoreDoc hit : searcher.search(query(analyzer, line.substring(tab + 1)), DEPTH).scoreDocs) {
                    String id = searcher.doc(hit.doc).get("id");
                    run.println(number + " Q0 " + id + " " + ++rank + " " + hit.score + " lucene");
                }
            }
        }
    }

    static BooleanQuery query(Analyzer analyzer, String text) throws Exception {
        var builder = new BooleanQuery.Builder();
        try (TokenStream tokens = analyzer.tokenStream("text", text)) {
            var term = tokens.addAttribute(CharTermAttribute.class);
            tokens.reset();
            while (tokens.incrementToken()) {
                builder.add(new TermQuery(new Term("text", term.toString())), BooleanClause.Occur.SHOULD);
            }
            tokens.end();
        }
        return builder.build();
    }
}
