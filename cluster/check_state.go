package cluster

import "spore/cluster/spec"

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
	p := in(src, "state")
	known := !src.has("state", "encrypt") || k.oneOf(p.then("encrypt"), "the key of the state", s.Encrypt, stateKeys)
	if !src.has("state", "withoutTPM") || !k.oneOf(p.then("withoutTPM"), "withoutTPM", s.WithoutTPM, withoutTPM) {
		return
	}
	if known && !s.ByTPM() {
		k.errorf(p.then("withoutTPM"), "this is about encrypt: tpm2 and tpm2-pin alone; remove withoutTPM")
	}
}
