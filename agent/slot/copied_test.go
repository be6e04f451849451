package slot

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/storage/fat"
	"spore/test/testpe"
)

func TestWhatIsCopiedToAnotherDiskStartsWhatIsThere(t *testing.T) {
	root, another := strings.Repeat("a", 64), strings.Repeat("b", 64)
	cluster, pushed := strings.Repeat("c", 64), strings.Repeat("d", 64)
	entry := func(name, root, cluster string) fat.File {
		line := "roothash=" + root + " spore.clusterhash=" + cluster + " ro\x00"
		program := testpe.Program(testpe.Section{Name: ".cmdline", Data: []byte(line)})
		return fat.File{Path: Dir + "/" + name, Size: int64(len(program)), Content: bytes.NewReader(program)}
	}
	file := func(path string) fat.File {
		return fat.File{Path: path, Size: 1, Content: strings.NewReader("x")}
	}
	const built, first, second = "spore_0123456789ab.efi", "spore_1000000000001_0123456789ab", "spore_1000000000002_0123456789ab"
	for name, tc := range map[string]struct {
		entries []fat.File
		want    []string
		err     string
	}{
		"as it was built":                            {[]fat.File{entry(built, root, cluster)}, []string{built}, ""},
		"as it was built, in capitals":               {[]fat.File{entry(built, strings.ToUpper(root), cluster)}, []string{built}, ""},
		"on trial":                                   {[]fat.File{entry(built, root, cluster), entry(first+"+2-1.efi", root, cluster)}, []string{built, first + "+2-1.efi"}, ""},
		"with the way back to another root":          {[]fat.File{entry(built, another, cluster), entry(first+".efi", root, cluster)}, []string{first + ".efi"}, ""},
		"with the way back to another configuration": {[]fat.File{entry(built, root, pushed), entry(first+".efi", root, cluster)}, []string{first + ".efi"}, ""},
		"gone back from a bad one":                   {[]fat.File{entry(first+".efi", root, cluster), entry(second+"+0-3.efi", another, cluster)}, []string{first + ".efi"}, ""},
		"with an update that waits":                  {[]fat.File{entry(first+".efi", root, cluster), entry(second+"+3.efi", another, cluster)}, nil, "the next start takes another system than the one that runs, " + second + "+3.efi"},
		"with a configuration that was taken live":   {[]fat.File{entry(built, root, cluster), entry(first+".efi", root, pushed)}, nil, "spore reboot"},
		"with a program of somebody's":               {[]fat.File{entry(built, root, cluster), file(Dir + "/memtest.efi")}, []string{built, "memtest.efi"}, ""},
		"from the network":                           {nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := Copied(append([]fat.File{file("/EFI/BOOT/BOOTX64.EFI"), file("/EFI/Linux/readme.txt")}, tc.entries...), root, cluster)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			var names []string
			for _, f := range out {
				names = append(names, strings.TrimPrefix(f.Path, Dir+"/"))
			}
			require.Equal(t, append([]string{"/EFI/BOOT/BOOTX64.EFI", "readme.txt"}, tc.want...), names)
		})
	}
}
