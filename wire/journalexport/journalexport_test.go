package journalexport_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"spore/wire/journalexport"
)

func long(n int) string { return strings.Repeat("x", n) }

// field is one in the binary form.
func field(name, value string) string {
	return name + "\n" + string(binary.LittleEndian.AppendUint64(nil, uint64(len(value)))) + value + "\n"
}

// many are fields with consecutive names.
func many(prefix string, count int, value string) string {
	var b strings.Builder
	for i := range count {
		fmt.Fprintf(&b, "%s%d=%s\n", prefix, i, value)
	}
	return b.String()
}

// shown is an entry with each field on a line.
func shown(entries []journalexport.Entry) []string {
	var out []string
	for _, e := range entries {
		var b strings.Builder
		for _, f := range e {
			fmt.Fprintf(&b, "%s=%q ", f.Name, f.Value)
		}
		out = append(out, strings.TrimSpace(b.String()))
	}
	return out
}

func read(in io.Reader) (out []journalexport.Entry, err error) {
	r := journalexport.NewReader(in)
	for {
		e, err := r.Next()
		if err != nil {
			_, again := r.Next()
			if !errors.Is(again, err) {
				return out, fmt.Errorf("after %w came %w", err, again)
			}
			return out, err
		}
		out = append(out, e)
	}
}

func TestReader(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want []string
		err  error
	}{
		"nothing has no entry":               {in: "", err: io.EOF},
		"empty lines are no entries":         {in: "\n\n\n", err: io.EOF},
		"two entries":                        {in: "A=1\nB=2\n\nA=3\n\n", want: []string{`A="1" B="2"`, `A="3"`}, err: io.EOF},
		"a value may have the sign itself":   {in: "A=b=c\n\n", want: []string{`A="b=c"`}, err: io.EOF},
		"a value may be empty":               {in: "A=\n\n", want: []string{`A=""`}, err: io.EOF},
		"a name may come twice":              {in: "A=1\nA=2\n\n", want: []string{`A="1" A="2"`}, err: io.EOF},
		"a binary value has lines":           {in: field("A", "x\ny\n\nB=1\n") + "\n", want: []string{`A="x\ny\n\nB=1\n"`}, err: io.EOF},
		"a binary value may be empty":        {in: field("A", "") + "\n", want: []string{`A=""`}, err: io.EOF},
		"an entry that is cut off is none":   {in: "A=1\n\nB=1\n", want: []string{`A="1"`}, err: io.ErrUnexpectedEOF},
		"a field that is cut off":            {in: "A=1", err: io.ErrUnexpectedEOF},
		"a name that is cut off":             {in: "AB", err: io.ErrUnexpectedEOF},
		"a length that is cut off":           {in: "A\n\x01\x00", err: io.ErrUnexpectedEOF},
		"a length without a value":           {in: "A\n\x01\x00\x00\x00\x00\x00\x00\x00", err: io.ErrUnexpectedEOF},
		"a binary value that is cut off":     {in: field("A", "abc")[:12], err: io.ErrUnexpectedEOF},
		"a binary value without end of line": {in: strings.TrimSuffix(field("A", "abc"), "\n") + "B=1\n", err: journalexport.ErrMalformed},
		"a length that nothing can have":     {in: "A\n\xff\xff\xff\xff\xff\xff\xff\xff", err: journalexport.ErrMalformed},
		"a length above that of an entry":    {in: "A\n\x01\x00\x00\x40\x00\x00\x00\x00", err: journalexport.ErrMalformed},
		"lengths that are too much together": {in: "A\n\x00\x00\x00\x40\x00\x00\x00\x00", err: journalexport.ErrMalformed},
		"a name with small letters":          {in: "a=1\nB=2\n\n", want: []string{`B="2" _SPORE_CUT="2"`}, err: io.EOF},
		"a name with a digit first":          {in: "1A=1\n\n", want: []string{`_SPORE_CUT="3"`}, err: io.EOF},
		"a name with what a terminal obeys":  {in: "\x1b[2J=1\nB=2\n\n", want: []string{`B="2" _SPORE_CUT="5"`}, err: io.EOF},
		"a name that is empty":               {in: "=1\nB=2\n\n", want: []string{`B="2" _SPORE_CUT="1"`}, err: io.EOF},
		"a name that is too long":            {in: long(100) + "=1\nB=2\n\n", want: []string{`B="2" _SPORE_CUT="101"`}, err: io.EOF},
		"a binary name that is not valid":    {in: field("a b", "1\n2") + "B=2\n\n", want: []string{`B="2" _SPORE_CUT="6"`}, err: io.EOF},
		"a name of 64 bytes":                 {in: strings.Repeat("X", 64) + "=1\n\n", want: []string{strings.Repeat("X", 64) + `="1"`}, err: io.EOF},
		"a cut is added to one before":       {in: "A=1\n_SPORE_CUT=7\n=12\n\n", want: []string{`A="1" _SPORE_CUT="9"`}, err: io.EOF},
		"a cut that is no number":            {in: "A=1\n_SPORE_CUT=x\n\n", want: []string{`A="1"`}, err: io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			for _, in := range []io.Reader{strings.NewReader(c.in), iotest.OneByteReader(strings.NewReader(c.in))} {
				got, err := read(in)
				require.ErrorIs(t, err, c.err)
				require.Equal(t, c.want, shown(got))
			}
		})
	}
}

func TestBoundsCutAndTheReaderGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		in string
		// fields and cut are those of the entry, where -1 is any cut; value is how long its first value is.
		fields, value, cut int
	}{
		"the longest value":           {in: "A=" + long(64<<10) + "\n", fields: 1, value: 64 << 10},
		"a text of 1 MiB":             {in: "A=" + long(1<<20) + "\n", fields: 2, value: 64 << 10, cut: 1<<20 - 64<<10},
		"a binary value of 1 MiB":     {in: field("A", "\n"+long(1<<20-1)), fields: 2, value: 64 << 10, cut: 1<<20 - 64<<10},
		"a text just above the bound": {in: "A=" + long(64<<10+1) + "\n", fields: 2, value: 64 << 10, cut: 1},
		"no half of a character":      {in: "A=" + long(64<<10-1) + "äb\n", fields: 2, value: 64<<10 - 1, cut: 3},
		"92 fields of a program":      {in: many("A", 92, "1"), fields: 92, value: 1},
		"93 fields of a program":      {in: many("A", 93, "1"), fields: 93, value: 1, cut: 4},
		"all fields of an entry":      {in: many("A", 200, "1") + many("_A", 200, "1") + many("_SPORE_", 200, "1"), fields: 128, value: 1, cut: -1},
		"fields as long as possible":  {in: many("A", 4, long(64<<10)), fields: 4, value: 64 << 10, cut: 64<<10 + 8},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := read(strings.NewReader(c.in + "\nNEXT=1\n\n"))
			require.ErrorIs(t, err, io.EOF)
			require.Len(t, got, 2)
			require.Equal(t, []string{`NEXT="1"`}, shown(got[1:]))
			e := got[0]
			require.Len(t, e, c.fields)
			require.Len(t, e[0].Value, c.value)
			cut, has := e.Get(journalexport.Cut)
			require.Equal(t, c.cut != 0, has)
			if c.cut > 0 {
				require.Equal(t, strconv.Itoa(c.cut), cut)
			}
		})
	}
}

func TestNoProgramPushesOutWhatJournaldSays(t *testing.T) {
	in := many("A", 500, long(60<<10)) + many("_AUDIT_FIELD_A", 500, long(60<<10)) + "_SYSTEMD_UNIT=evil.service\n_UID=33\n\n"
	got, err := read(strings.NewReader(in))
	require.ErrorIs(t, err, io.EOF)
	unit, _ := got[0].Get("_SYSTEMD_UNIT")
	require.Equal(t, "evil.service", unit)
	uid, _ := got[0].Get("_UID")
	require.Equal(t, "33", uid)
}

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	e := journalexport.Entry{
		{Name: "__CURSOR", Value: []byte("s=1;i=2")},
		{Name: "MESSAGE", Value: []byte("a\nb\x00\xff")},
		{Name: "TAB", Value: []byte("a\tb")},
		{Name: "EMPTY", Value: []byte{}},
		{Name: "ESC", Value: []byte("\x1b[2J")},
		{Name: "not valid\nMESSAGE", Value: []byte("forged")},
	}
	data := journalexport.Append(nil, e)
	data = journalexport.Append(data, e[:1])
	got, err := read(bytes.NewReader(data))
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, shown([]journalexport.Entry{e[:5], e[:1]}), shown(got))
	require.Contains(t, string(data), "TAB=a\tb\n")
	require.Contains(t, string(data), "ESC\n\x04")
}

// endless gives the same bytes for ever, or up to a count.
type endless struct {
	head string
	left int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.head != "" {
		n := copy(p, e.head)
		e.head = e.head[n:]
		return n, nil
	}
	if e.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), e.left)
	for i := range n {
		p[i] = 'x'
	}
	e.left -= n
	return n, nil
}

func TestEndlessLinesTakeNoMemory(t *testing.T) {
	for name, head := range map[string]string{"value": "A=", "name": "A"} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := read(&endless{head: head, left: 64 << 20})
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(2<<20))
		})
	}
}

func TestAnEndlessEntryEnds(t *testing.T) {
	_, err := read(&endless{head: "A=", left: 1<<30 + 1<<20})
	require.ErrorIs(t, err, journalexport.ErrMalformed)
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("__CURSOR=s=1;i=2\nMESSAGE=hello\n\n"))
	f.Add([]byte(field("MESSAGE", "a\nb") + "\n"))
	f.Add([]byte("A\n\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Add([]byte("=\n=\n\n"))
	f.Add([]byte(many("A", 130, "1") + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := read(bytes.NewReader(data))
		require.Error(t, err)
		var again []byte
		for _, e := range got {
			require.LessOrEqual(t, len(e), journalexport.MaxFields)
			size := 0
			for _, f := range e {
				require.True(t, journalexport.ValidName(f.Name))
				require.LessOrEqual(t, len(f.Value), journalexport.MaxValue)
				size += len(f.Name) + len(f.Value)
			}
			require.LessOrEqual(t, size, journalexport.MaxEntry)
			if len(e) > 0 {
				again = journalexport.Append(again, e)
			}
		}
		var want []journalexport.Entry
		for _, e := range got {
			if len(e) > 0 {
				want = append(want, e)
			}
		}
		second, err := read(bytes.NewReader(again))
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, shown(want), shown(second))
	})
}
