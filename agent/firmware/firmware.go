// Package firmware reads what UEFI firmware, kernel and TPM say about the start of this machine: Secure Boot (UEFI
// 2.10, section 3.3), the kernel's lockdown (kernel_lockdown(7)) and what was measured into the TPM's PCR 11.
//
// It says what is, and judges nothing: a machine that was broken into can say anything. Only a TPM's own quote proves
// more.
package firmware

import (
	"io"
	"io/fs"
	"strings"
)

// Where the kernel shows it.
const (
	efiDir    = "sys/firmware/efi"
	variables = efiDir + "/efivars/"
	global    = "-8be4df61-93ca-11d2-aa0d-00e098032b8c" // EFI_GLOBAL_VARIABLE
	lockdown  = "sys/kernel/security/lockdown"
	pcr11     = "sys/class/tpm/tpm0/pcr-sha256/11"
)

// maxText bounds what is read of a file, in bytes.
const maxText = 256

// Info is what was found.
type Info struct {
	// SecureBoot tells that the firmware starts only what is signed, SetupMode that it has no owner yet and takes any
	// keys.
	SecureBoot bool `json:"secureBoot"`
	SetupMode  bool `json:"setupMode"`
	// Lockdown is none, integrity or confidentiality; empty when the kernel does not say.
	Lockdown string `json:"lockdown,omitempty"`
	// PCR11 is the SHA-256 that the boot left in the TPM, in lower-case hexadecimal digits; empty without a TPM.
	PCR11 string `json:"pcr11,omitempty"`
}

// Checks tells whether the firmware starts only what its keys let start. One without an owner starts everything.
func (i Info) Checks() bool { return i.SecureBoot && !i.SetupMode }

// Read reads all of it below the root of the machine. It is nil on a machine that was not started by UEFI firmware.
func Read(root fs.FS) *Info {
	if _, err := fs.Stat(root, efiDir); err != nil {
		return nil
	}
	return &Info{
		SecureBoot: flag(root, "SecureBoot"), SetupMode: flag(root, "SetupMode"),
		Lockdown: chosen(text(root, lockdown)), PCR11: strings.ToLower(digits(text(root, pcr11))),
	}
}

// text is the beginning of a file; nothing when it cannot be read.
func text(root fs.FS, name string) string {
	f, err := root.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxText))
	if err != nil {
		return ""
	}
	return string(data)
}

// flag reads a variable of one byte; efivarfs puts four bytes of attributes before it.
func flag(root fs.FS, name string) bool {
	v := text(root, variables+name+global)
	return len(v) == 5 && v[4] == 1
}

// chosen is the word in brackets: "none [integrity] confidentiality".
func chosen(s string) string {
	_, s, _ = strings.Cut(s, "[")
	s, _, found := strings.Cut(s, "]")
	if !found {
		return ""
	}
	return s
}

// digits is a line that is a SHA-256, or nothing.
func digits(s string) string {
	s = strings.TrimSpace(s)
	if len(s) != 64 || strings.Trim(s, "0123456789abcdefABCDEF") != "" {
		return ""
	}
	return s
}
