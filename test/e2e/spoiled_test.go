//go:build e2e

package e2e

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/secureboot"
)

// measuring are instructions for x86-64 that do what a stub does which fails: they measure the name of a kernel's
// section into PCR 11 (EFI_TCG2_PROTOCOL.HashLogExtendEvent), and end with EFI_LOAD_ERROR. systemd's own stub does the
// same with a bad kernel, and the firmware of these machines (edk2 2022.11) then runs into memory that it has given
// back, and stands still, so that nothing could be seen of the start after it.
var measuring = []string{
	"4883ec48",             // sub rsp, 0x48
	"488b4260",             // mov rax, [rdx+0x60]: the boot services
	"488d0d44000000",       // lea rcx, the protocol's GUID
	"31d2",                 // xor edx, edx
	"4c8d442438",           // lea r8, [rsp+0x38]
	"ff9040010000",         // call [rax+0x140]: LocateProtocol
	"4885c0",               // test rax, rax
	"7823",                 // js: to the end
	"488b4c2438",           // mov rcx, [rsp+0x38]: the protocol
	"31d2",                 // xor edx, edx: no flags
	"4c8d0534000000",       // lea r8, what is measured
	"41b907000000",         // mov r9d, its size
	"488d052e000000",       // lea rax, the event
	"4889442420",           // mov [rsp+0x20], rax
	"ff5110",               // call [rcx+0x10]: HashLogExtendEvent
	"48b80100000000000080", // mov rax, EFI_LOAD_ERROR: the end
	"4883c448",             // add rsp, 0x48
	"c3",                   // ret
	"6c767f605574be42930be4d76db2720f",
	"2e6c696e757800",                       // ".linux"
	"190000000e00000001000b0000000d000000", // EFI_TCG2_EVENT: 25 bytes, a header of 14, version 1, PCR 11, EV_IPL
	"2e6c696e757800",
}

// measured is the suite's UKI, which measures and ends with an error, signed for the machines of an image.
func measured(t *testing.T, i signedImage) []byte {
	t.Helper()
	read := func(path string) []byte {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		return data
	}
	code, err := hex.DecodeString(strings.Join(measuring, ""))
	require.NoError(t, err)
	uki := beginsWith(t, read(filepath.Join(filepath.Dir(suite.image), "spore.efi")), code)
	signer, err := secureboot.NewSigner(read(filepath.Join(i.keys, "db.key")), read(filepath.Join(i.keys, "db.crt")))
	require.NoError(t, err)
	uki, err = signer.SignPE(uki)
	require.NoError(t, err)
	return uki
}
