//! What every fabric must do, on real servers.

use crate::one;
use farol_fabric::testing::check_contract;

#[test]
fn one_server_does_what_every_fabric_does() {
    let (_folder, servers) = one();
    check_contract(&servers.node(), &servers.node());
}
