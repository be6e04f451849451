// Package revoke has the firmware of this machine take the revoked images that the configuration names: it hashes what
// lies on the ESP, and tells the TPM of the next start first, where the state is opened by what the firmware measures.
// Package dbx has the rules.
package revoke

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"spore/agent/bootinfo"
	"spore/agent/bundle"
	"spore/agent/dbx"
	"spore/agent/efi"
	"spore/agent/firmware"
	"spore/agent/luks"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/state"
	"spore/agent/tpm"
	"spore/agent/unlock"
	"spore/agent/volume"
	"spore/cluster/facts"
	"spore/pki/authenticode"
	"spore/storage/atomicfile"
	"spore/storage/fat"
)

// eventLog is what the firmware measured of this start.
const eventLog = "/sys/kernel/security/tpm0/binary_bios_measurements"

// Run has the firmware take the revoked images that the configuration names.
func Run(ctx context.Context, m *node.Machine) error {
	m.ReadBoot()
	auth, err := atomicfile.ReadLimited(filepath.Join(m.Root.At(bootinfo.ClusterDir), facts.RevokedFile), dbx.MaxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	write, err := dbx.Parse(auth)
	if err != nil {
		return fmt.Errorf("%s of the configuration: %w", facts.RevokedFile, err)
	}
	if efi.Counted(os.DirFS(m.Root.At(paths.EFIVars))) {
		m.Say("the configuration is on trial: the firmware gets the revoked images that it names at the next start")
		return nil
	}
	if f := firmware.Read(os.DirFS(m.Root.At("/"))); f == nil || !f.SecureBoot {
		m.Say("Secure Boot is off: the firmware gets no revoked images")
		return nil
	}
	machine := dbx.Machine{
		Vars: m.Root.At(paths.EFIVars), Programs: func() (map[string]authenticode.Hash, error) { return espPrograms(m) }, Say: m.Say,
		Start: func() (tpm.Digest, []byte, error) {
			start, err := volume.Measured(m)
			if err != nil {
				return tpm.Digest{}, nil, err
			}
			log, err := atomicfile.ReadLimited(m.Root.At(eventLog), tpm.MaxLog)
			return start.Keys, log, err
		},
	}
	if err := expecting(m, &machine); err != nil {
		return err
	}
	_, err = dbx.Bring(ctx, write, machine)
	return err
}

// programs hashes all programs on the ESP that the machine was started from.
func espPrograms(m *node.Machine) (map[string]authenticode.Hash, error) {
	if m.Boot.ESP == "" {
		return nil, errors.New("it is not known which ESP the machine was started from")
	}
	f, err := os.Open(m.Boot.ESP)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Seek(0, 2)
	if err != nil {
		return nil, err
	}
	fsys, err := fat.Open(f, size)
	if err != nil {
		return nil, fmt.Errorf("the ESP: %w", err)
	}
	files, err := fsys.Walk()
	if err != nil {
		return nil, fmt.Errorf("the ESP: %w", err)
	}
	out := map[string]authenticode.Hash{}
	for _, file := range files {
		if !strings.HasSuffix(strings.ToLower(file.Path), ".efi") {
			continue
		}
		hash, err := authenticode.HashOf(file.Content, file.Size)
		if err != nil {
			return nil, fmt.Errorf("the ESP: %s: %w", file.Path, err)
		}
		out[file.Path] = hash
	}
	return out, nil
}

// expecting says how the TPM is told of the next start, where it opens the state by what the firmware measures.
func expecting(m *node.Machine, to *dbx.Machine) error {
	var info state.Info
	if err := atomicfile.ReadJSON(m.Root.At(paths.State), &info); err != nil {
		return err
	}
	if info.Encryption == nil {
		return nil
	}
	device := m.Root.At("/dev/disk/by-partuuid/" + strings.ToLower(info.PartUUID))
	f, err := os.Open(device)
	if err != nil {
		return err
	}
	defer f.Close()
	header, err := luks.Read(f)
	if err != nil {
		return err
	}
	for _, t := range header.All(luks.TokenTPM) {
		to.Sealed = to.Sealed || t.PublicKey != nil
	}
	_, _, n, err := m.Node()
	if err != nil || n == nil {
		return errors.Join(err, errors.New("it is not known which node this is"))
	}
	lock := volume.Lock(m, n)
	to.Expect = func(ctx context.Context, keys tpm.Digest) error {
		key, err := bundle.StoredRecoveryKey(ctx, m)
		if err != nil {
			return err
		}
		if err := lock.Expect(ctx, device, header, keys, key); !errors.Is(err, unlock.ErrNotSealed) {
			return err
		}
		return nil // It does not open this start either.
	}
	return nil
}
