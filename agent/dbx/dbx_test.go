package dbx

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"spore/agent/tpm"
	"spore/pki/authenticode"
	"spore/pki/siglist"
)

// list is one of hashes, of one owner.
func list(owner byte, hashes ...Hash) []byte {
	return siglist.EncodeHashes(uuid.UUID(bytes.Repeat([]byte{owner}, 16)), hashes)
}

// Hash is a program's.
type Hash = authenticode.Hash

// certificates is a list of another kind.
func certificates() []byte {
	le := binary.LittleEndian
	out := bytes.Repeat([]byte{0xa1}, 16)
	out = le.AppendUint32(out, 28+20)
	out = le.AppendUint32(out, 0)
	out = le.AppendUint32(out, 20)
	return append(out, make([]byte, 20)...)
}

// signed is a write of a list with something for a signature.
func signed(list []byte) []byte {
	return siglist.Write{Time: make([]byte, 16), Signature: []byte("signature"), Content: list}.Encode()
}

func parsed(t *testing.T, list []byte) Write {
	t.Helper()
	w, err := Parse(signed(list))
	require.NoError(t, err)
	return w
}

func TestOnlyOneListOfHashesIsBrought(t *testing.T) {
	require.Equal(t, []Hash{{1}, {2}}, parsed(t, list(9, Hash{1}, Hash{2})).Hashes())
	good := signed(list(9, Hash{1}))
	for name, data := range map[string][]byte{
		"nothing": nil, "no signature": list(9, Hash{1}), "a signature that is longer than the file": append(good[:16:16], 0xff, 0xff, 0xff, 0xff),
		"no list": signed(nil), "an empty list": signed(list(9)), "two lists": signed(append(list(9, Hash{1}), list(9, Hash{2})...)),
		"certificates": signed(certificates()), "a list that is cut short": good[:len(good)-1], "far too much": make([]byte, MaxSize+1),
	} {
		_, err := Parse(data)
		require.Error(t, err, name)
	}
}

func TestTheFirmwareAddsWhatItDoesNotHave(t *testing.T) {
	w := parsed(t, list(9, Hash{1}, Hash{2}))
	for name, c := range map[string]struct{ have, want []byte }{
		"nothing is there":    {nil, list(9, Hash{1}, Hash{2})},
		"other kinds stay":    {certificates(), append(certificates(), list(9, Hash{1}, Hash{2})...)},
		"one is there":        {list(9, Hash{1}), append(list(9, Hash{1}), list(9, Hash{2})...)},
		"somebody else's are": {list(8, Hash{1}), append(list(8, Hash{1}), list(9, Hash{1}, Hash{2})...)},
		"all are there":       {list(9, Hash{2}, Hash{3}, Hash{1}), list(9, Hash{2}, Hash{3}, Hash{1})},
	} {
		got, err := w.After(c.have)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
	}
	for name, have := range map[string][]byte{"cut short": certificates()[:30], "sizes that do not fit": append(bytes.Repeat([]byte{1}, 16), make([]byte, 12)...)} {
		_, err := w.After(have)
		require.Error(t, err, name)
	}
}

// bench is a machine with a firmware in a folder.
type bench struct {
	vars     string
	log      []byte
	keys     tpm.Digest
	expected []tpm.Digest
	refuses  error
	said     []string
}

// event is one of the firmware's event log with a bank of SHA-256.
func event(register, kind uint32, data []byte) []byte {
	le := binary.LittleEndian
	sum := sha256.Sum256(data)
	b := le.AppendUint32(le.AppendUint32(nil, register), kind)
	b = le.AppendUint16(le.AppendUint32(b, 1), 0xb)
	b = le.AppendUint32(append(b, sum[:]...), uint32(len(data)))
	return append(b, data...)
}

// measured is the log of a start with a dbx.
func measured(t *testing.T, content []byte) ([]byte, tpm.Digest) {
	t.Helper()
	le := binary.LittleEndian
	spec := append([]byte("Spec ID Event03\x00"), 0, 0, 0, 0, 0, 2, 0, 2, 1, 0, 0, 0, 0xb, 0, 32, 0, 0)
	log := le.AppendUint32(le.AppendUint32(nil, 0), 3)
	log = le.AppendUint32(append(log, make([]byte, 20)...), uint32(len(spec)))
	log = append(log, spec...)
	vendor := []byte{0xcb, 0xb2, 0x19, 0xd7, 0x3a, 0x3d, 0x96, 0x45, 0xa3, 0xbc, 0xda, 0xd0, 0x0e, 0x67, 0x65, 0x6f}
	data := le.AppendUint64(le.AppendUint64(vendor, 3), uint64(len(content)))
	data = append(append(data, 'd', 0, 'b', 0, 'x', 0), content...)
	log = append(log, event(7, 0x80000001, data)...)
	log = append(log, event(7, 4, make([]byte, 4))...)
	parsed, err := tpm.ParseLog(log)
	require.NoError(t, err)
	return log, parsed.Value(tpm.Keys)
}

func newBench(t *testing.T, content []byte) *bench {
	t.Helper()
	b := &bench{vars: t.TempDir()}
	if content != nil {
		b.keep(t, content)
	}
	b.log, b.keys = measured(t, content)
	return b
}

// keep has the firmware keep a list.
func (b *bench) keep(t *testing.T, content []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(b.vars, variable), append([]byte{0x27, 0, 0, 0}, content...), 0o600))
}

func (b *bench) machine(programs map[string]Hash) Machine {
	return Machine{
		Vars: b.vars, Sealed: true, Programs: func() (map[string]Hash, error) { return programs, nil },
		Start: func() (tpm.Digest, []byte, error) { return b.keys, b.log, nil },
		Expect: func(_ context.Context, keys tpm.Digest) error {
			b.expected = append(b.expected, keys)
			return b.refuses
		},
		Say: func(s string) { b.said = append(b.said, s) },
	}
}

func (b *bench) file(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(b.vars, variable))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	require.NoError(t, err)
	return data
}

func TestTheTPMIsToldBeforeTheFirmware(t *testing.T) {
	old := list(8, Hash{7})
	b, w := newBench(t, old), parsed(t, list(9, Hash{1}))
	want, err := w.After(old)
	require.NoError(t, err)
	_, next := measured(t, want)
	m := b.machine(map[string]Hash{"/EFI/Linux/new.efi": {5}})
	told := m.Expect
	m.Expect = func(ctx context.Context, keys tpm.Digest) error {
		if len(b.expected) == 0 {
			require.Equal(t, append([]byte{0x27, 0, 0, 0}, old...), b.file(t), "nothing is written yet")
		}
		return told(ctx, keys)
	}
	brought, err := Bring(t.Context(), w, m)
	require.NoError(t, err)
	require.True(t, brought)
	require.Equal(t, next, b.expected[0])
	require.Equal(t, append([]byte{0x67, 0, 0, 0}, w.Auth...), b.file(t), "the folder keeps the write; a firmware would keep its list")
	// What the folder holds now is not what was expected, as with a firmware of its own ways: the TPM is told of that too.
	_, other := measured(t, w.Auth)
	require.Equal(t, []tpm.Digest{next, other}, b.expected)

	b = newBench(t, want)
	brought, err = Bring(t.Context(), w, b.machine(nil))
	require.NoError(t, err)
	require.False(t, brought, "the firmware has it")
	require.Empty(t, b.expected)
}

func TestAMachineThatWouldNotComeBackIsLeftAsItIs(t *testing.T) {
	w := parsed(t, list(9, Hash{1}))
	for name, c := range map[string]struct {
		change   func(*bench, *Machine)
		programs map[string]Hash
		want     string
	}{
		"the image is in a slot of the machine": {nil, map[string]Hash{"/EFI/Linux/old.efi": {1}}, "/EFI/Linux/old.efi; push another image"},
		"the TPM takes no key":                  {func(b *bench, _ *Machine) { b.refuses = errors.New("a PIN is wanted") }, nil, "a PIN is wanted"},
		"the log does not give the register":    {func(b *bench, _ *Machine) { b.keys[0] ^= 1 }, nil, "does not give PCR 7"},
		"there is no log":                       {func(b *bench, _ *Machine) { b.log = nil }, nil, "cut short"},
		"the firmware's list cannot be read":    {func(b *bench, _ *Machine) { _ = os.WriteFile(filepath.Join(b.vars, variable), []byte{1}, 0o600) }, nil, "it has 1 bytes"},
		"the ESP cannot be read": {func(_ *bench, m *Machine) {
			m.Programs = func() (map[string]Hash, error) { return nil, errors.New("no ESP") }
		}, nil, "no ESP"},
		"what was measured is not known": {func(_ *bench, m *Machine) {
			m.Start = func() (tpm.Digest, []byte, error) { return tpm.Digest{}, nil, errors.New("no TPM") }
		}, nil, "no TPM"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, list(8, Hash{7}))
			m := b.machine(c.programs)
			if c.change != nil {
				c.change(b, &m)
			}
			before := b.file(t)
			brought, err := Bring(t.Context(), w, m)
			require.ErrorContains(t, err, c.want)
			require.False(t, brought)
			require.Equal(t, before, b.file(t))
		})
	}
}

// efivarfs has a file without content where a variable was to be made and the firmware has refused it.
func TestAnEmptyFileIsNoList(t *testing.T) {
	b := newBench(t, nil)
	require.NoError(t, os.WriteFile(filepath.Join(b.vars, variable), nil, 0o600))
	brought, err := Bring(t.Context(), parsed(t, list(9, Hash{1})), b.machine(nil))
	require.NoError(t, err)
	require.True(t, brought)
}

func TestWithoutATPMNothingIsPredicted(t *testing.T) {
	b, w := newBench(t, nil), parsed(t, list(9, Hash{1}))
	m := b.machine(nil)
	m.Sealed, m.Start, m.Expect = false, nil, nil
	brought, err := Bring(t.Context(), w, m)
	require.NoError(t, err)
	require.True(t, brought)
}

func FuzzParse(f *testing.F) {
	f.Add(signed(list(9, Hash{1}, Hash{2})), list(8, Hash{1}))
	f.Add(signed(certificates()), certificates())
	f.Add([]byte{}, []byte{})
	f.Fuzz(func(t *testing.T, auth, have []byte) {
		w, err := Parse(auth)
		if err != nil {
			return
		}
		require.NotEmpty(t, w.Hashes())
		after, err := w.After(have)
		if err != nil {
			return
		}
		again, err := w.After(after)
		require.NoError(t, err)
		require.Equal(t, after, again, "what is there is not added")
	})
}
