package deb822

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func all(text string) (out []Paragraph, err error) {
	s := NewScanner(text)
	for s.Next() {
		p := *s.Paragraph()
		p.Fields = append([]Field(nil), p.Fields...)
		out = append(out, p)
	}
	return out, s.Err()
}

func TestParagraphsAreRead(t *testing.T) {
	got, err := all("# head\n\n\nA: 1\nB:2  \n C: not a field\n\t.\nD:\n\n# between\n \t\r\nE: x:y\r\n# inside\n z\nF:")
	require.NoError(t, err)
	require.Equal(t, []Paragraph{
		{Raw: "A: 1\nB:2  \n C: not a field\n\t.\nD:", Line: 4, Offset: 9, Fields: []Field{{"A", "1", 4}, {"B", "2  \n C: not a field\n\t.", 5}, {"D", "", 8}}},
		{Raw: "E: x:y\r\n# inside\n z\nF:", Line: 12, Offset: 57, Fields: []Field{{"E", "x:y\r\n z", 12}, {"F", "", 15}}},
	}, got)
	require.Equal(t, "1", got[0].Get("a"))
	_, ok := got[0].Lookup("missing")
	require.False(t, ok)
	v, ok := got[1].Lookup("f")
	require.True(t, ok)
	require.Empty(t, v)
}

func TestNothingIsNoParagraph(t *testing.T) {
	for _, text := range []string{"", "\n\n", "# only\n#comments", " \t\n"} {
		got, err := all(text)
		require.NoError(t, err)
		require.Empty(t, got)
	}
}

func TestWhatIsNoParagraphIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"A: 1\n\n x":     "line 3: a continuation line before any field",
		"A: 1\nnonsense": "line 2: not a field",
		": x":            "line 1: not a field",
		"-A: x":          "not a field",
		"A B: x":         "not a field",
		"Ä: x":           "not a field",
		"A: 1\na: 2":     "line 2: field a occurs twice",
		strings.Repeat("A", 3) + ": 1\n" + manyFields(maxFields): "more than 512 fields",
	} {
		s := NewScanner(text)
		for s.Next() {
		}
		require.ErrorContains(t, s.Err(), want, text)
		require.False(t, s.Next(), "an error is the end")
	}
}

func manyFields(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("F" + strings.Repeat("x", i) + ": 1\n")
	}
	return b.String()
}

// A paragraph's own text, read again, is the same paragraph.
func FuzzScanner(f *testing.F) {
	for _, s := range []string{"A: 1\nB: 2\n c\n\nD: 3\n", "# x\nA:\n# y\n z", "A: 1\r\n\r\nB: 2", "\n\n x", "A"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		paragraphs, _ := all(text)
		for _, p := range paragraphs {
			again, err := all(p.Raw)
			require.NoError(t, err)
			require.Len(t, again, 1)
			require.Len(t, again[0].Fields, len(p.Fields))
			for i, f := range p.Fields {
				require.Equal(t, f.Name, again[0].Fields[i].Name)
				require.Equal(t, f.Value, again[0].Fields[i].Value)
			}
		}
	})
}
