package spec

// State says how a node keeps its state, /var. It is decided when the partition is made.
type State struct {
	// Encrypt encrypts the state partition (LUKS2) and says what opens it at boot: tpm2 (the machine's TPM), tpm2-pin (the
	// TPM and a PIN that is asked for on the console), passphrase (asked for on the console), host-key (a key on the boot
	// medium together with the machine's UUID) or none (default). The recovery key of the node's bundle opens it always.
	Encrypt string `yaml:"encrypt,omitempty" json:"encrypt,omitempty"`
	// WithoutTPM is what a machine without a TPM 2.0 does where encrypt is tpm2 or tpm2-pin: refuse (default; it keeps no
	// state), passphrase or host-key.
	WithoutTPM string `yaml:"withoutTPM,omitempty" json:"withoutTPM,omitempty"`
}

// What opens encrypted state.
const (
	EncryptNone       = "none"
	EncryptTPM        = "tpm2"
	EncryptTPMPIN     = "tpm2-pin"
	EncryptPassphrase = "passphrase"
	EncryptHostKey    = "host-key"
)

// Encrypts are all values of State.Encrypt.
var Encrypts = []string{EncryptNone, EncryptTPM, EncryptTPMPIN, EncryptPassphrase, EncryptHostKey}

// RefuseWithoutTPM is the default of State.WithoutTPM.
const RefuseWithoutTPM = "refuse"

// ByTPM tells whether the machine's TPM is to open the state.
func (s *State) ByTPM() bool {
	return s != nil && (s.Encrypt == EncryptTPM || s.Encrypt == EncryptTPMPIN)
}

// Encrypted tells whether state is to be encrypted.
func (s *State) Encrypted() bool { return s != nil && s.Encrypt != "" && s.Encrypt != EncryptNone }
