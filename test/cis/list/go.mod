// The pin of the list that test/cis goes through. Nothing of this module is compiled.
module spore/test/cis/list

go 1.26.0

require github.com/aquasecurity/kube-bench v0.15.1
