package vm

import (
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// SMBIOS is what the machine says about itself.
type SMBIOS struct {
	Serial, UUID, Product string
	// Credentials are systemd credentials (systemd.system-credentials(7)): small ones are SMBIOS type 11 strings, others
	// items of fw_cfg. All of them together may have 1 MiB. A node takes those alone whose names begin with "spore.".
	Credentials map[string][]byte
	// KernelArguments are further words of the kernel command line; systemd's EFI stub takes them, with Secure Boot too,
	// and measures them into PCR 12 (systemd-stub(7), io.systemd.stub.kernel-cmdline-extra).
	KernelArguments []string
}

func (s SMBIOS) args(in scratch) ([]string, error) {
	var args []string
	system := "type=1"
	for _, f := range []struct{ key, value string }{{"serial", s.Serial}, {"uuid", s.UUID}, {"product", s.Product}} {
		if f.value != "" {
			system += "," + f.key + "=" + strings.ReplaceAll(f.value, ",", ",,")
		}
	}
	if system != "type=1" {
		args = append(args, "-smbios", system)
	}
	if len(s.KernelArguments) > 0 {
		words := strings.ReplaceAll(strings.Join(s.KernelArguments, " "), ",", ",,")
		args = append(args, "-smbios", "type=11,value=io.systemd.stub.kernel-cmdline-extra="+words)
	}
	credentials, err := s.credentialArgs(in)
	return append(args, credentials...), err
}

// Bounds of credentials in bytes.
const (
	// maxString is the largest that is an SMBIOS string. With a 32-bit entry point, which is q35's own in older QEMU, all
	// SMBIOS structures together may have 64 KiB (DMTF DSP0134, section 5.2.1), and the bundle of a master has more. The 64-bit
	// one has no such bound, but OVMF leaves a structure of 0.9 MB out without a word.
	maxString = 1 << 10
	// maxCredentials is what a node takes of all credentials together, as systemd does (CREDENTIALS_TOTAL_SIZE_MAX).
	maxCredentials = 1 << 20
	// maxItem is the length of the name of an item of fw_cfg in QEMU.
	maxItem = 55
)

// credentialArgs hands over the credentials. They go through files, because everybody can read a command line.
func (s SMBIOS) credentialArgs(in scratch) ([]string, error) {
	var args []string
	sum := 0
	for i, n := range slices.Sorted(maps.Keys(s.Credentials)) {
		data, file := s.Credentials[n], in.credential(i)
		carrier := []string{"-smbios", "type=11,path=" + file}
		if len(data) > maxString {
			item := "opt/io.systemd.credentials/" + n
			if len(item) > maxItem {
				return nil, fmt.Errorf("credential %s: with more than %d bytes its name may have %d characters", n, maxString, maxItem-len(item)+len(n))
			}
			carrier = []string{"-fw_cfg", "name=" + escape(item) + ",file=" + escape(file)}
		} else {
			// The .binary form is Base64, so that any bytes pass.
			data = []byte("io.systemd.credential.binary:" + n + "=" + base64.StdEncoding.EncodeToString(data))
		}
		if sum += len(data); sum > maxCredentials {
			return nil, fmt.Errorf("credential %s: all of them have more than %d bytes, which a node does not take", n, maxCredentials)
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			return nil, err
		}
		args = append(args, carrier...)
	}
	return args, nil
}
