package cluster

import (
	"spore/cluster/check"
	"spore/cluster/spec"
)

// withoutTPM is what opens encrypted state where there is no TPM.
var withoutTPM = []string{spec.RefuseWithoutTPM, spec.EncryptPassphrase, spec.EncryptHostKey}

// checkState checks how state is encrypted, in cluster.yaml or a node's file.
func (k *checker) checkState(src *source, s *spec.State) {
	if s == nil {
		return
	}
	p := check.In(src, "state")
	known := !src.Has("state", "encrypt") || k.OneOf(p.Then("encrypt"), "the key of the state", s.Encrypt, spec.Encrypts)
	if !src.Has("state", "withoutTPM") || !k.OneOf(p.Then("withoutTPM"), "withoutTPM", s.WithoutTPM, withoutTPM) {
		return
	}
	if known && !s.ByTPM() {
		k.Errorf(p.Then("withoutTPM"), "this is about encrypt: tpm2 and tpm2-pin alone; remove withoutTPM")
	}
}
