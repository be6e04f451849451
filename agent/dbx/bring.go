package dbx

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"spore/agent/efivars"
	"spore/agent/tpm"
	"spore/pki/authenticode"
	"spore/storage/atomicfile"
)

// variable is the list in efivarfs.
const variable = "dbx-d719b2cb-3d3a-4596-a3bc-dad00e67656f"

// attributes are those of the write: kept, for boot services and the running system, authenticated by time, added to
// what is there (section 8.2.1).
const attributes = 0x1 | 0x2 | 0x4 | 0x20 | 0x40

// Machine is what Bring works with.
type Machine struct {
	// Vars is the directory of efivarfs.
	Vars string
	// Programs are the hashes of the programs that the machine may have to start, by their names: of both slots.
	Programs func() (map[string]authenticode.Hash, error)
	// Start tells PCR 7 and the firmware's event log of this start; it is asked for where Sealed is true.
	Start func() (tpm.Digest, []byte, error)
	// Sealed tells that a TPM opens the machine's state by PCR 7, and Expect has it open at a start with another.
	Sealed bool
	Expect func(ctx context.Context, keys tpm.Digest) error
	// Say reports progress.
	Say func(string)
}

// ErrRuns is part of the error of a write that revokes a program of this machine.
var ErrRuns = errors.New("it revokes a program that this machine may have to start")

// Bring has the firmware take a write. It changes nothing where a program of the machine would not start any more, or
// where it cannot be told what the TPM will measure: a machine must come back by itself. It can be cut off at any point
// and run again.
func Bring(ctx context.Context, w Write, m Machine) (brought bool, err error) {
	have, err := m.read()
	if err != nil {
		return false, err
	}
	want, err := w.After(have)
	if err != nil || bytes.Equal(want, have) {
		return false, err
	}
	programs, err := m.Programs()
	if err != nil {
		return false, err
	}
	revoked := w.Hashes()
	for name, hash := range programs {
		if slices.Contains(revoked, hash) {
			return false, fmt.Errorf("%w: %s; push another image until none of the node's slots has it", ErrRuns, name)
		}
	}
	if err := m.expect(ctx, want); err != nil {
		return false, fmt.Errorf("the TPM would not open the state afterwards, so the firmware's dbx stays as it is: %w", err)
	}
	if err := m.write(w.Auth); err != nil {
		return false, fmt.Errorf("the firmware does not take the write of dbx (was it signed with this machine's KEK?): %w", err)
	}
	m.Say(fmt.Sprintf("the firmware has taken %d revoked programs into its dbx", len(revoked)))
	got, err := m.read()
	if err != nil {
		return true, err
	}
	if !bytes.Equal(got, want) {
		m.Say("the firmware keeps its dbx in another way than was expected")
		return true, m.expect(ctx, got)
	}
	return true, nil
}

// expect prepares the TPM for a start with another dbx.
func (m Machine) expect(ctx context.Context, want []byte) error {
	if !m.Sealed {
		return nil
	}
	keys, data, err := m.Start()
	if err != nil {
		return err
	}
	log, err := tpm.ParseLog(data)
	if err != nil {
		return err
	}
	if log.Value(tpm.Keys) != keys {
		return errors.New("the firmware's event log does not give PCR 7")
	}
	if _, err := log.Database("dbx"); err != nil {
		return err
	}
	if log, err = log.With("dbx", want); err != nil {
		return err
	}
	return m.Expect(ctx, log.Value(tpm.Keys))
}

// read reads the list; it is empty where the firmware has none.
func (m Machine) read() ([]byte, error) {
	data, err := atomicfile.ReadLimited(filepath.Join(m.Vars, variable), MaxSize)
	// efivarfs keeps a file without content, until the machine starts anew, where the firmware refused to make the
	// variable.
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(data) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the firmware's dbx: %w", err)
	}
	if len(data) < 4 {
		return nil, fmt.Errorf("read the firmware's dbx: it has %d bytes", len(data))
	}
	return data[4:], nil
}

// write hands the write to the firmware: efivarfs wants all of it at once, with the attributes in front.
func (m Machine) write(auth []byte) error {
	name := filepath.Join(m.Vars, variable)
	if err := efivars.Mutable(name); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(binary.LittleEndian.AppendUint32(nil, attributes), auth...))
	return errors.Join(err, f.Close())
}
