package tail

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// headOf is a head with an entry.
func headOf(entries, number uint64) []byte {
	head := make([]byte, headLength+80)
	copy(head, magic)
	copy(head[bootAt:], strings.Repeat("\xab", 16))
	copy(head[seriesAt:], strings.Repeat("\x01", 16))
	binary.LittleEndian.PutUint64(head[entriesAt:], entries)
	binary.LittleEndian.PutUint64(head[numberAt:], number)
	return head
}

func TestTheLastEntryIsInTheHead(t *testing.T) {
	for name, tc := range map[string]struct {
		data []byte
		want Entry
		err  string
	}{
		"entries":        {headOf(3, 300), Entry{strings.Repeat("01", 16), strings.Repeat("ab", 16), 300}, ""},
		"none yet":       {headOf(0, 0), Entry{}, ErrEmpty.Error()},
		"cut":            {headOf(3, 300)[:headLength-1], Entry{}, "unexpected EOF"},
		"empty":          {nil, Entry{}, "EOF"},
		"something else": {make([]byte, 1000), Entry{}, "it is not a journal file"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "system.journal")
			require.NoError(t, os.WriteFile(path, tc.data, 0o600))
			got, err := Read(path)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
	_, err := Read(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
