package shell

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFramesAreReadAsTheyWereWritten(t *testing.T) {
	var b bytes.Buffer
	frames := []struct {
		kind Kind
		data []byte
	}{{Input, []byte("id\n")}, {Output, bytes.Repeat([]byte{0xff}, MaxFrame)}, {End, []byte{}}, {Alive, []byte{}}, {Exit, []byte("{}")}}
	for _, f := range frames {
		require.NoError(t, WriteFrame(&b, f.kind, f.data))
	}
	for _, f := range frames {
		kind, data, err := ReadFrame(&b)
		require.NoError(t, err)
		require.Equal(t, f.kind, kind)
		require.Equal(t, f.data, data)
	}
	_, _, err := ReadFrame(&b)
	require.ErrorIs(t, err, io.EOF)
}

func TestFramesThatAreMalformedAreRefused(t *testing.T) {
	for _, text := range []string{"i", "i\x00", "i\x00\x02a", "z\x00\x00", "o\x20\x01", "\x00\x00\x00", "i\xff\xff"} {
		_, _, err := ReadFrame(strings.NewReader(text))
		require.ErrorIs(t, err, ErrFrame, "%q", text)
	}
	require.ErrorContains(t, WriteFrame(io.Discard, Output, make([]byte, MaxFrame+1)), "internal error")
}

func TestSizesAndTerminals(t *testing.T) {
	s, err := ParseSize(Size{24, 80}.Encode())
	require.NoError(t, err)
	require.Equal(t, Size{24, 80}, s)
	for _, bad := range [][]byte{nil, {1}, {0, 0, 0, 1}, {0, 1, 0, 0}, {0xff, 0xff, 0, 1}, {0, 1, 0, 1, 0}} {
		_, err := ParseSize(bad)
		require.Error(t, err, "%v", bad)
	}
	require.NoError(t, Terminal{"xterm-256color", Size{24, 80}}.Check())
	require.NoError(t, Terminal{"screen.xterm+x", Size{24, 80}}.Check())
	for _, kind := range []string{"", "a b", "../x/y", "x\n", "é", strings.Repeat("x", 65)} {
		require.Error(t, Terminal{kind, Size{24, 80}}.Check(), "%q", kind)
	}
	require.Error(t, Terminal{"vt100", Size{}}.Check())
}

func TestOutcomes(t *testing.T) {
	o, err := ParseOutcome([]byte(`{"status":3}`))
	require.NoError(t, err)
	require.Equal(t, "exit status 3", o.String())
	require.Equal(t, "the hour was over", Outcome{129, "the hour was over"}.String())
	for _, bad := range []string{"", "[]", `{"status":256}`, `{"status":-1}`} {
		_, err := ParseOutcome([]byte(bad))
		require.Error(t, err, bad)
	}
}

func FuzzFrame(f *testing.F) {
	f.Add([]byte("i\x00\x03id\n"))
	f.Add([]byte("r\x00\x04\x00\x18\x00\x50"))
	f.Add([]byte("x\x00\x0c{\"status\":0}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		in := bytes.NewReader(data)
		for {
			kind, payload, err := ReadFrame(in)
			if err != nil {
				return
			}
			switch kind {
			case Resize:
				if s, err := ParseSize(payload); err == nil && !bytes.Equal(s.Encode(), payload) {
					t.Fatal("a size is another one")
				}
			case Exit:
				if o, err := ParseOutcome(payload); err == nil && o.Status > 255 {
					t.Fatal("there is no such status")
				}
			}
			var out bytes.Buffer
			if err := WriteFrame(&out, kind, payload); err != nil {
				t.Fatal(err)
			}
		}
	})
}
