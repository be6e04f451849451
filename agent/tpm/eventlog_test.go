package tpm

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// firmware writes an event log as firmware does, with a bank of SHA-1 besides.
type firmware struct{ log []byte }

func newFirmware(banks ...uint16) *firmware {
	le := binary.LittleEndian
	if len(banks) == 0 {
		banks = []uint16{0x4, algSHA256}
	}
	spec := append(bytes.Clone(signature), 0, 0, 0, 0, 0, 2, 0, 2)
	spec = le.AppendUint32(spec, uint32(len(banks)))
	for _, b := range banks {
		spec = le.AppendUint16(le.AppendUint16(spec, b), map[uint16]uint16{0x4: 20, algSHA256: 32}[b])
	}
	spec = append(spec, 0)
	var first []byte
	first = le.AppendUint32(first, 0)
	first = le.AppendUint32(first, noAction)
	first = append(first, make([]byte, 20)...)
	first = le.AppendUint32(first, uint32(len(spec)))
	return &firmware{append(first, spec...)}
}

// event measures data; what is measured differs from it where digested is given.
func (f *firmware) event(register, kind uint32, data []byte, digested ...byte) *firmware {
	le := binary.LittleEndian
	if digested == nil {
		digested = data
	}
	sum := sha256.Sum256(digested)
	f.log = le.AppendUint32(le.AppendUint32(f.log, register), kind)
	f.log = le.AppendUint32(f.log, 2)
	f.log = append(le.AppendUint16(f.log, 0x4), make([]byte, 20)...)
	f.log = append(le.AppendUint16(f.log, algSHA256), sum[:]...)
	f.log = append(le.AppendUint32(f.log, uint32(len(data))), data...)
	return f
}

// boot is the log of a start with Secure Boot.
func boot(dbx string) *firmware {
	return newFirmware().
		event(0, 0x8, []byte("the firmware")).
		event(Keys, driverConfig, append(make([]byte, 16), variableData("SecureBoot", []byte{1})[16:]...)).
		event(Keys, driverConfig, variableData("db", []byte("our certificate"))).
		event(Keys, driverConfig, variableData("dbx", []byte(dbx))).
		event(Keys, noAction, []byte("StartupLocality")).
		event(Keys, 0x4, []byte{0, 0, 0, 0}).
		event(4, 0x80000003, []byte("the boot loader")).
		event(Keys, 0x800000e0, variableData("db", []byte("one certificate")))
}

func parsed(t *testing.T, f *firmware) Log {
	t.Helper()
	l, err := ParseLog(f.log)
	require.NoError(t, err)
	return l
}

func TestTheLogGivesTheRegister(t *testing.T) {
	l := parsed(t, boot("old"))
	require.Len(t, l, 8)
	var want Digest
	for _, i := range []int{1, 2, 3, 5, 7} {
		want = want.Extend(l[i].Digest)
	}
	require.Equal(t, want, l.Value(Keys))
	require.NotEqual(t, want, l.Value(4))
	require.Equal(t, Digest{}, l.Value(Words))
	content, err := l.Database("dbx")
	require.NoError(t, err)
	require.Equal(t, "old", string(content))
}

func TestAStartWithAnotherListIsPredicted(t *testing.T) {
	before, after := parsed(t, boot("old")), parsed(t, boot("old and new"))
	next, err := before.With("dbx", []byte("old and new"))
	require.NoError(t, err)
	require.Equal(t, after.Value(Keys), next.Value(Keys))
	require.NotEqual(t, before.Value(Keys), next.Value(Keys))
	same, err := before.With("dbx", []byte("old"))
	require.NoError(t, err)
	require.Equal(t, before.Value(Keys), same.Value(Keys))
}

func TestLogsOfWhichNothingIsPredicted(t *testing.T) {
	foreign := append(make([]byte, 16), variableData("dbx", nil)[16:]...)
	for name, c := range map[string]struct {
		log  *firmware
		want string
	}{
		"no list":                    {newFirmware(), "has no event of dbx"},
		"a list of somebody else":    {newFirmware().event(Keys, driverConfig, foreign), "has no event of dbx"},
		"a list in another register": {newFirmware().event(1, driverConfig, variableData("dbx", nil)), "has no event of dbx"},
		"sizes that do not fit":      {newFirmware().event(Keys, driverConfig, variableData("dbx", nil)[:33]), "has no event of dbx"},
		"two of them":                {boot("").event(Keys, driverConfig, variableData("dbx", nil)), "two events of dbx"},
		"measured in another way":    {newFirmware().event(Keys, driverConfig, variableData("dbx", nil), 1), "in another way than its event log says"},
	} {
		_, err := parsed(t, c.log).With("dbx", []byte("x"))
		require.ErrorContains(t, err, c.want, name)
	}
}

func TestLogsThatAreRefused(t *testing.T) {
	whole := boot("x").log
	many := newFirmware().event(0, 1, nil).log
	many[len(newFirmware().log)+8] = 200
	kind := newFirmware().event(0, 1, nil).log
	kind[len(newFirmware().log)+12] = 0x99
	for name, c := range map[string]struct {
		log  []byte
		want string
	}{
		"nothing":                   {nil, "cut short"},
		"cut in the first event":    {whole[:40], "list of its banks"},
		"cut in the last event":     {whole[:len(whole)-1], "event 7: it is cut short"},
		"no list of banks":          {append(make([]byte, 32), whole...), "list of its banks"},
		"no bank of SHA-256":        {newFirmware(0x4).log, "no bank of SHA-256"},
		"too many digests":          {many, "it has 200 digests"},
		"a digest of unknown kind":  {kind, "unknown kind 0x99"},
		"more than any firmware":    {make([]byte, MaxLog+1), "more than 16777216"},
		"an event without a header": {append(bytes.Clone(whole), 1, 2, 3), "event 8: it is cut short"},
	} {
		_, err := ParseLog(c.log)
		require.ErrorContains(t, err, c.want, name)
	}
}

func FuzzParseLog(f *testing.F) {
	f.Add(boot("x").log)
	f.Add(newFirmware().log)
	f.Add(boot("x").log[:200])
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := ParseLog(data)
		if err != nil {
			return
		}
		l.Value(Keys)
		for _, name := range []string{"db", "dbx"} {
			content, err := l.Database(name)
			if err != nil {
				continue
			}
			same, err := l.With(name, content)
			require.NoError(t, err)
			require.Equal(t, l.Value(Keys), same.Value(Keys), "the same content is the same start")
		}
	})
}

func TestTheImagesOfAStartAreCounted(t *testing.T) {
	image := func(f *firmware) *firmware {
		return f.event(Image, 0xd, []byte(".\x00l\x00"), []byte(".linux\x00")...).event(Image, 0xd, []byte("k"), []byte("a kernel")...)
	}
	for name, tt := range map[string]struct {
		log  *firmware
		want int
	}{
		"none":                          {boot("dbx"), 0},
		"one":                           {image(boot("dbx")), 1},
		"two":                           {image(image(boot("dbx"))), 2},
		"in another register":           {boot("dbx").event(Words, 0xd, nil, []byte(".linux\x00")...), 0},
		"without the zero":              {boot("dbx").event(Image, 0xd, nil, []byte(".linux")...), 0},
		"an event that is not measured": {boot("dbx").event(Image, noAction, nil, []byte(".linux\x00")...), 0},
	} {
		log, err := ParseLog(tt.log.log)
		require.NoError(t, err, name)
		require.Equal(t, tt.want, log.Images(), name)
	}
}
