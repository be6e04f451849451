package efi_test

import (
	"encoding/binary"
	"testing"
	"testing/fstest"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"spore/agent/efi"
)

func textOf(s string) *fstest.MapFile {
	data := []byte{6, 0, 0, 0}
	for _, u := range append(utf16.Encode([]rune(s)), 0) {
		data = binary.LittleEndian.AppendUint16(data, u)
	}
	return &fstest.MapFile{Data: data}
}

func TestAStartIsCountedWhenTheLoaderStartedTheEntryThatItCounts(t *testing.T) {
	const entry = "spore_1000000000001_0123456789ab"
	for name, tt := range map[string]struct {
		counted, selected *fstest.MapFile
		want              bool
	}{
		"no counter":                        {nil, textOf(entry + ".efi"), false},
		"nothing":                           {nil, nil, false},
		"the entry on trial":                {textOf(`\EFI\Linux\` + entry + "+2-1.efi"), textOf(entry + ".efi"), true},
		"with the counter in its id":        {textOf(entry + "+2-1.efi"), textOf(entry + "+3.efi"), true},
		"in capitals":                       {textOf(`\EFI\LINUX\SPORE_A+2-1.EFI`), textOf("spore_a.efi"), true},
		"the first start of three":          {textOf(`\EFI\Linux\` + entry + "+3.efi"), textOf(entry + ".efi"), true},
		"the one before, after a torn one":  {textOf(`\EFI\Linux\` + entry + "+0-3.efi"), textOf("spore_0123456789ab.efi"), false},
		"a loader that does not say which":  {textOf(`\EFI\Linux\` + entry + "+2-1.efi"), nil, true},
		"a counter that cannot be read":     {&fstest.MapFile{Data: []byte("x")}, textOf(entry + ".efi"), true},
		"an entry that cannot be read":      {textOf(entry + "+2-1.efi"), &fstest.MapFile{Data: []byte("x")}, true},
		"a plus in the name, and no number": {textOf(`\EFI\Linux\a+b.efi`), textOf("a.efi"), false},
	} {
		vars := fstest.MapFS{}
		for variable, file := range map[string]*fstest.MapFile{
			"LoaderBootCountPath": tt.counted, "LoaderEntrySelected": tt.selected,
		} {
			if file != nil {
				vars[variable+loader] = file
			}
		}
		require.Equal(t, tt.want, efi.Counted(vars), name)
	}
}
