// Calico's module names this one, and nothing that we compile imports it. Its place is a module of its own in Calico's
// tree that only Calico's replace directives find, so that an empty one stands in.
module github.com/projectcalico/calico/lib/httpmachinery

go 1.26.0
