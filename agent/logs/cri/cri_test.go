package cri

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestALineIsTimeStreamTagsAndMessage(t *testing.T) {
	for text, want := range map[string]Line{
		"2026-11-26T12:00:00.123456789Z stdout F hello world":      {Stream: Stdout, Message: []byte("hello world")},
		"2026-11-26T12:00:00.123456789Z stderr P hello ":           {Stream: Stderr, Partial: true, Message: []byte("hello ")},
		"2026-11-26T13:00:00.123456789+01:00 stdout F:x y":         {Stream: Stdout, Message: []byte("y")},
		"2026-11-26T12:00:00.123456789Z stdout F ":                 {Stream: Stdout, Message: []byte{}},
		"2026-11-26T12:00:00.123456789Z stdout F":                  {Stream: Stdout},
		"2026-11-26T12:00:00.123456789Z stdout F \x1b[31m\x00\xff": {Stream: Stdout, Message: []byte("\x1b[31m\x00\xff")},
	} {
		l, err := Parse([]byte(text))
		require.NoError(t, err, text)
		require.True(t, l.Time.Equal(time.Date(2026, 11, 26, 12, 0, 0, 123456789, time.UTC)), text)
		require.Equal(t, string(want.Message), string(l.Message), text)
		require.Equal(t, want.Stream, l.Stream)
		require.Equal(t, want.Partial, l.Partial)
	}
	for _, text := range []string{
		"", " ", "hello", "2026-11-26T12:00:00Z", "2026-11-26T12:00:00Z stdout", "2026-11-26T12:00:00Z stdin F x", "2026-11-26 12:00:00 stdout F x",
		"2026-11-26T12:00:00Z stdout X x", "2026-11-26T12:00:00Z  stdout F x", "0001-01-01T00:00:00Z stdout F x", "9999-01-01T00:00:00Z stdout F x",
		`{"log":"docker\n","stream":"stdout","time":"2026-11-26T12:00:00Z"}`, strings.Repeat("2", 1000) + " stdout F x",
	} {
		_, err := Parse([]byte(text))
		require.ErrorIs(t, err, ErrMalformed, text)
	}
}

func TestNamesOfPodsAndFilesAreThoseOfKubelet(t *testing.T) {
	p, ok := ParsePod("kube-system_calico-node.a-x7f2p_0f6d3c52-9a6e-4f8f-9f0e-2f6b3f3a8a11")
	require.True(t, ok)
	require.Equal(t, Pod{"kube-system", "calico-node.a-x7f2p", "0f6d3c52-9a6e-4f8f-9f0e-2f6b3f3a8a11"}, p)
	for _, name := range []string{
		"", "a", "a_b", "a_b_c_d", "_b_c", "a__c", "a_b_", "A_b_c", "a_../x_c", "a_b..c_d", "-a_b_c", "a-_b_c", "a_b._c", "a_b_c\n", "a.b_c_d",
		strings.Repeat("a", 64) + "_b_c", "a_" + strings.Repeat("b", 254) + "_c", "a_b\x00_c", "ä_b_c",
	} {
		_, ok := ParsePod(name)
		require.False(t, ok, "%q", name)
	}
	for name, want := range map[string]File{
		"0.log": {}, "12.log": {Restart: 12}, "0.log.20261126-120000": {Rotated: "20261126-120000"},
		"3.log.20261126-120000.gz": {Restart: 3, Rotated: "20261126-120000", Gzip: true},
	} {
		f, ok := ParseFile(name)
		require.True(t, ok, name)
		require.Equal(t, want, f, name)
	}
	for _, name := range []string{
		"", "log", ".log", "-1.log", "+1.log", "01.log", "99999999999.log", "0.log.gz", "0.log.20261126-120000.gz.tmp", "0.log.20261326-120000",
		"0.log20261126-120000", "0.log.20261126-120000.gz.gz", "../0.log", "0.log/", "0.log.", "0.log.20261126-120000.5",
	} {
		_, ok := ParseFile(name)
		require.False(t, ok, "%q", name)
	}
}

func TestFilesOfAContainerAreOrderedFromTheOldestOn(t *testing.T) {
	names := []string{"1.log", "0.log", "1.log.20261126-120000", "1.log.20251126-120000.gz", "10.log", "1.log.20261126-120000.gz", "0.log.20261231-000000"}
	slices.SortFunc(names, func(a, b string) int {
		x, _ := ParseFile(a)
		y, _ := ParseFile(b)
		return Compare(x, y)
	})
	require.Equal(t, []string{
		"0.log.20261231-000000", "0.log", "1.log.20251126-120000.gz", "1.log.20261126-120000", "1.log.20261126-120000.gz", "1.log", "10.log",
	}, names)
}

func line(t *testing.T, text string) Line {
	t.Helper()
	l, err := Parse([]byte("2026-11-26T12:00:00Z " + text))
	require.NoError(t, err)
	return l
}

func TestPartsAreJoinedOfEachStreamByItself(t *testing.T) {
	budget := NewBudget(1 << 20)
	j := NewJoiner[int](budget)
	_, _, whole := j.Add(line(t, "stdout P one, "), 1)
	require.False(t, whole)
	_, _, whole = j.Add(line(t, "stderr P ERR"), 2)
	require.False(t, whole)
	at, some := j.Oldest()
	require.True(t, some)
	require.Equal(t, 1, at)
	_, _, whole = j.Add(line(t, "stdout P two, "), 3)
	require.False(t, whole)
	m, begin, whole := j.Add(line(t, "stdout F three"), 4)
	require.True(t, whole)
	require.Equal(t, "one, two, three", string(m.Text))
	require.Equal(t, 1, begin)
	at, some = j.Oldest()
	require.True(t, some)
	require.Equal(t, 2, at)
	m, begin, whole = j.Add(line(t, "stdout F alone"), 5)
	require.True(t, whole)
	require.Equal(t, "alone", string(m.Text))
	require.Equal(t, 5, begin)
	m, begin, some = j.Flush()
	require.True(t, some)
	require.Equal(t, "ERR", string(m.Text))
	require.Equal(t, Stderr, m.Stream)
	require.Equal(t, 2, begin)
	_, _, some = j.Flush()
	require.False(t, some)
	_, some = j.Oldest()
	require.False(t, some)
	require.Equal(t, 1<<20, budget.left, "all memory came back")
}

func TestAMessageWithoutAnEndIsCut(t *testing.T) {
	budget := NewBudget(3 * MaxMessage)
	j, other := NewJoiner[int](budget), NewJoiner[int](budget)
	part := Line{Stream: Stdout, Partial: true, Message: bytes.Repeat([]byte("x"), 16<<10)}
	for i := range 100 {
		_, _, whole := j.Add(part, i)
		require.False(t, whole)
	}
	m, begin, whole := j.Add(Line{Stream: Stdout, Message: []byte("end")}, 100)
	require.True(t, whole)
	require.Len(t, m.Text, MaxMessage)
	require.EqualValues(t, 100*16<<10+3-MaxMessage, m.Cut)
	require.Zero(t, begin)

	for range 100 {
		for _, s := range []string{Stdout, Stderr} {
			part.Stream = s
			j.Add(part, 0)
			other.Add(part, 0)
		}
	}
	require.Zero(t, budget.left, "the four have three quarters of what they could have")
	j.Drop()
	other.Drop()
	require.Equal(t, 3*MaxMessage, budget.left)
	m, _, whole = j.Add(Line{Stream: Stdout, Message: bytes.Repeat([]byte("x"), MaxMessage+5)}, 0)
	require.True(t, whole)
	require.Len(t, m.Text, MaxMessage)
	require.EqualValues(t, 5, m.Cut)
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"2026-11-26T12:00:00.123456789Z stdout F hello", "2026-11-26T12:00:00Z stderr P:a:b x", "2026-11-26T12:00:00+14:00 stdout F", "x", "  F ",
	} {
		f.Add([]byte(s), "a_b_c", "0.log.20261126-120000.gz")
	}
	f.Fuzz(func(t *testing.T, data []byte, folder, name string) {
		j := NewJoiner[int](NewBudget(128))
		for at, text := range bytes.Split(data, []byte{'\n'}) {
			l, err := Parse(text)
			if err != nil {
				continue
			}
			require.True(t, bytes.HasSuffix(text, l.Message))
			m, begin, whole := j.Add(l, at)
			require.Equal(t, whole, !l.Partial)
			require.LessOrEqual(t, begin, at)
			if whole {
				require.GreaterOrEqual(t, m.Cut, int64(0))
			}
		}
		j.Drop()
		require.Equal(t, 128, j.budget.left)
		if p, ok := ParsePod(folder); ok {
			require.Equal(t, folder, p.Namespace+"_"+p.Name+"_"+p.UID)
			require.NotContains(t, folder, "/")
		}
		if _, ok := ParseFile(name); ok {
			require.NotContains(t, name, "/")
		}
	})
}
