//go:build integration

package xz

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write testdata anew with the machine's xz")

func runXZ(t *testing.T, plain []byte, args ...string) []byte {
	cmd := exec.Command("xz", append([]string{"--stdout", "--quiet"}, args...)...)
	cmd.Stdin = bytes.NewReader(plain)
	out, err := cmd.Output()
	require.NoError(t, err)
	return out
}

// TestTheToolXZ reads what xz writes with many settings.
func TestTheToolXZ(t *testing.T) {
	for _, v := range vectors {
		if *update {
			require.NoError(t, os.WriteFile(filepath.Join("testdata", v.file+".xz"), runXZ(t, v.plain, v.args...), 0o644))
		}
	}
	plain := sample(3 << 20)
	for _, args := range []string{
		"-0", "-1", "-3", "-4", "-6", "-9", "-9e", "-0e --check=none", "-2 --check=sha256", "-1 --check=crc32",
		"--lzma2=preset=1,dict=4KiB", "--lzma2=preset=0,lc=0,lp=0,pb=0", "--lzma2=preset=1,lc=4,lp=0,pb=4,dict=100KiB", "--lzma2=preset=1,lc=0,lp=4,pb=1",
		"--lzma2=preset=0,lc=2,lp=2,pb=2,nice=273", "-1 --block-size=500KiB", "-T2 -1 --block-size=700KiB", "-1 --x86 --lzma2=preset=0",
	} {
		t.Run(args, func(t *testing.T) {
			packed := runXZ(t, plain, strings.Fields(args)...)
			got, err := decode(bytes.NewReader(packed), Options{})
			require.NoError(t, err)
			require.True(t, bytes.Equal(plain, got))
		})
	}
}
