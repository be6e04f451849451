package slot

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEntryNames(t *testing.T) {
	for file, want := range map[string]Entry{
		"spore_0123456789ab.efi":       {Stem: "spore_0123456789ab"},
		"spore_1+3.efi":                {Stem: "spore_1", Counted: true, Left: 3},
		"spore_1+2-1.EFI":              {Stem: "spore_1", Counted: true, Left: 2, Done: 1},
		"spore_1+0-3.efi":              {Stem: "spore_1", Counted: true, Done: 3},
		"a+b.efi":                      {Stem: "a+b"},
		"a+1-.efi":                     {Stem: "a+1-"},
		"a+99999999999999999999-1.efi": {Stem: "a+99999999999999999999-1"},
	} {
		e, ok := ParseEntry(file)
		require.True(t, ok)
		require.Equal(t, want, e)
		require.True(t, strings.EqualFold(file, e.File()), file)
	}
	for _, file := range []string{"x", ".efi", "vmlinuz"} {
		_, ok := ParseEntry(file)
		require.False(t, ok, file)
	}
	trial := Entry{Stem: "s", Counted: true, Left: 2, Done: 1}
	require.Equal(t, "s.efi", trial.Good().File())
	require.Equal(t, "s+0-3.efi", trial.Bad().File())
	require.Equal(t, "s+3.efi", trial.Returned().File())
	require.Equal(t, "s.efi", trial.Good().Returned().File())
	require.Equal(t, "spore_1000000000008_0123456789ab+3.efi",
		newEntry([]Entry{{Stem: "spore_999999999999"}, {Stem: "spore_1000000000007_ffffffffffff"}}, strings.Repeat("0123456789ab", 5)).File())
}

func FuzzParseEntry(f *testing.F) {
	f.Add("spore_1000000000001_0123456789ab+2-1.efi")
	f.Fuzz(func(t *testing.T, file string) {
		e, ok := ParseEntry(file)
		if !ok || !e.Counted {
			return
		}
		again, ok := ParseEntry(e.File())
		require.True(t, ok)
		require.Equal(t, e, again)
	})
}
