package cluster

import (
	"spore/cluster/check"
	"spore/cluster/spec"
)

// What opens encrypted state, and what does so where there is no TPM.
var (
	stateKeys  = []string{spec.EncryptNone, spec.EncryptTPM, spec.EncryptTPMPIN, spec.EncryptPassphrase, spec.EncryptHostKey}
	withoutTPM = []string{spec.RefuseWithoutTPM, spec.EncryptPassphrase, spec.EncryptHostKey}
)

// checkState checks how state is encrypted, in cluster.yaml or a node's file.
func (k *checker) checkState(src *source, s *spec.State) {
	if s == nil {
		return
	}
	p := check.In(src, "state")
	known := !src.Has("state", "encrypt") || k.OneOf(p.Then("encrypt"), "the key of the state", s.Encrypt, stateKeys)
	if !src.Has("state", "withoutTPM") || !k.OneOf(p.Then("withoutTPM"), "withoutTPM", s.WithoutTPM, withoutTPM) {
		return
	}
	if known && !s.ByTPM() {
		k.Errorf(p.Then("withoutTPM"), "this is about encrypt: tpm2 and tpm2-pin alone; remove withoutTPM")
	}
}
