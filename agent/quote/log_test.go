package quote

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// event is one of a log.
type event struct {
	register, kind uint32
	sum            []byte
}

// makeLog is a log with SHA-1 and SHA-256, as firmware writes it.
func makeLog(events ...event) []byte {
	le := binary.LittleEndian
	spec := append([]byte(signature), 0, 0, 0, 0, 0, 2, 106, 2)
	spec = le.AppendUint32(spec, 2)
	for _, n := range []uint16{4, 20, sha256ID, 32} {
		spec = le.AppendUint16(spec, n)
	}
	spec = append(spec, 0)
	out := le.AppendUint32(le.AppendUint32(nil, 0), noAction)
	out = append(out, make([]byte, 20)...)
	out = append(le.AppendUint32(out, uint32(len(spec))), spec...)
	for _, e := range events {
		out = le.AppendUint32(le.AppendUint32(le.AppendUint32(out, e.register), e.kind), 2)
		out = append(le.AppendUint16(out, 4), make([]byte, 20)...)
		out = append(le.AppendUint16(out, sha256ID), e.sum...)
		out = append(le.AppendUint32(out, 5), "words"...)
	}
	return out
}

func sum(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

func TestTheLogSaysWhatTheFirmwareStarted(t *testing.T) {
	got, err := Started(bytes.NewReader(makeLog(event{0, 8, sum(1)}, event{4, 5, sum(2)}, event{7, 1, sum(3)}, event{4, noAction, sum(4)}, event{4, 0x80000003, sum(5)})))
	require.NoError(t, err)
	require.Equal(t, [][]byte{sum(2), sum(5)}, got)
	got, err = Started(bytes.NewReader(makeLog()))
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestALogThatIsNoneIsRefused(t *testing.T) {
	whole := makeLog(event{4, 5, sum(2)})
	change := func(at int, b byte) []byte {
		out := bytes.Clone(whole)
		out[at] = b
		return out
	}
	const head = 8 + 20 + 4
	const first = head + 16 + 8 + 4 + 8 + 1
	var many []event
	for range maxStarted + 1 {
		many = append(many, event{4, 5, sum(1)})
	}
	for name, tt := range map[string]struct {
		log  []byte
		want string
	}{
		"nothing":                     {nil, "does not begin with the word of a TPM 2.0"},
		"a log of TPM 1.2":            {change(head, 'X'), "does not begin with the word of a TPM 2.0"},
		"another first event":         {change(4, 8), "does not begin with the word of a TPM 2.0"},
		"no kinds of hashes":          {change(head+16+8, 0), "0 kinds of hashes"},
		"many kinds of hashes":        {change(head+16+8, 200), "200 kinds of hashes"},
		"SHA-256 of another length":   {change(head+16+8+4+6, 20), "its kinds of hashes cannot be read"},
		"SHA-256 of no length":        {change(head+16+8+4+6, 0), "its kinds of hashes cannot be read"},
		"an event with many hashes":   {change(first+8, 100), "an event has 100 hashes"},
		"a hash of an unknown kind":   {change(first+12, 9), "unknown kind 0x9"},
		"cut in an event":             {whole[:len(whole)-1], "cut short"},
		"an event as long as the sea": {change(len(whole)-6, 0xff), "cut short"},
		"many programs":               {makeLog(many...), "more than 64 programs"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Started(bytes.NewReader(tt.log))
			require.ErrorContains(t, err, tt.want)
		})
	}
	_, err := Started(strings.NewReader(strings.Repeat("x", maxLog+1)))
	require.ErrorContains(t, err, "more than 4194304 bytes")
}

func TestACertificateEndsWhereItsDERDoes(t *testing.T) {
	got, err := derOnly([]byte{0x30, 0x82, 0, 2, 1, 2, 0xff, 0xff})
	require.NoError(t, err)
	require.Equal(t, []byte{0x30, 0x82, 0, 2, 1, 2}, got)
	for _, b := range [][]byte{nil, {0x30, 0x82, 0}, {0x31, 0x82, 0, 0}, {0x30, 0x82, 0, 9, 1}} {
		_, err := derOnly(b)
		require.Error(t, err)
	}
}

func FuzzStarted(f *testing.F) {
	f.Add(makeLog(event{4, 5, sum(2)}, event{7, 1, sum(3)}))
	f.Add(makeLog())
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := Started(bytes.NewReader(data))
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(got), maxStarted)
		for _, s := range got {
			require.Len(t, s, 32)
		}
	})
}
