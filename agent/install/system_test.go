package install

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/bootinfo"
	"spore/agent/detect"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/cluster/spec"
	"spore/storage/atomicfile"
)

func TestWhichDiskTheSystemIsToBeInstalledOn(t *testing.T) {
	for name, tc := range map[string]struct{ credential, cmdline, want, err string }{
		"nobody asks":                   {"", "quiet roothash=aa", "", ""},
		"the firmware":                  {"S5H9\n", "quiet", "S5H9", ""},
		"the command line":              {"", "quiet spore.install=wwn:0x5 ro", "wwn:0x5", ""},
		"both, and they agree":          {"S5H9", "spore.install=S5H9", "S5H9", ""},
		"both, and they do not":         {"S5H9", "spore.install=OTHER", "", "name one"},
		"the command line, twice":       {"", "spore.install=A spore.install=B", "", "name one"},
		"a word that only begins alike": {"", "spore.installed=A", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			root, credentials := t.TempDir(), t.TempDir()
			t.Setenv("CREDENTIALS_DIRECTORY", credentials)
			require.NoError(t, os.Mkdir(filepath.Join(root, "proc"), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(root, "proc/cmdline"), []byte(tc.cmdline+"\n"), 0o600))
			if tc.credential != "" {
				require.NoError(t, os.WriteFile(filepath.Join(credentials, wordName), []byte(tc.credential), 0o600))
			}
			m := node.New("spore-agent", paths.Root(root))
			got, err := asked(m)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}

func TestWithoutARequestNothingIsInstalled(t *testing.T) {
	m := node.New("spore-agent", paths.Root(t.TempDir()))
	m.Restart = func(context.Context) error { t.Fatal("it restarts"); return nil }
	require.NoError(t, Unattended(t.Context(), m))
}

func TestAnInstallThatIsRefusedIsSaidAndWaits(t *testing.T) {
	t.Setenv("CREDENTIALS_DIRECTORY", t.TempDir())
	require.NoError(t, os.WriteFile(filepath.Join(os.Getenv("CREDENTIALS_DIRECTORY"), wordName), []byte("/dev/sda"), 0o600))
	m := node.New("spore-agent", paths.Root(t.TempDir()))
	m.Restart = func(context.Context) error { t.Fatal("it restarts"); return nil }
	ctx, cancel := context.WithCancel(t.Context())
	said := ""
	m.Say = func(s string) { said = s; cancel() }
	require.ErrorIs(t, Unattended(ctx, m), context.Canceled)
	require.Contains(t, said, "changes from boot to boot")
	require.Contains(t, said, "The machine waits")
}

// withDisk is a machine with the disk vda.
func withDisk(t *testing.T) *node.Machine {
	t.Helper()
	root := t.TempDir()
	for name, content := range map[string]string{
		"proc/self/mountinfo": "", "sys/block/vda/size": "16777216", "sys/block/vda/serial": "INNER", "sys/block/vda/device/x": "", "sys/block/vda/dev": "254:0",
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(content+"\n"), 0o600))
	}
	return node.New("spore-agent", paths.Root(root))
}

func TestWithoutUEFIThereIsNoInstall(t *testing.T) {
	require.ErrorContains(t, Attended(t.Context(), withDisk(t), Wish{Disk: spec.DiskSelector{Serial: "INNER"}}, nil, nil), "started without UEFI")
	require.ErrorContains(t, Attended(t.Context(), withDisk(t), Wish{Disk: spec.DiskSelector{Serial: "OTHER"}}, nil, nil), `no disk has the serial "OTHER"`)
}

func TestAMachineThatWasStartedFromTheDiskGoesOn(t *testing.T) {
	t.Setenv("CREDENTIALS_DIRECTORY", t.TempDir())
	require.NoError(t, os.WriteFile(filepath.Join(os.Getenv("CREDENTIALS_DIRECTORY"), wordName), []byte("INNER"), 0o600))
	m := withDisk(t)
	m.Restart = func(context.Context) error { t.Fatal("it restarts"); return nil }
	require.NoError(t, bootinfo.Write(m.Root.At(bootinfo.Path), bootinfo.Info{BootDisk: bootinfo.Disk{Path: "/dev/vda"}}))
	require.NoError(t, Unattended(t.Context(), m))
}

func TestTheQuestionWantsAYes(t *testing.T) {
	var out strings.Builder
	require.NoError(t, confirmInstall(strings.NewReader("Yes\n"), &out))
	for _, answer := range []string{"", "\n", "no\n", "yellow\n"} {
		require.ErrorContains(t, confirmInstall(strings.NewReader(answer), &out), "nothing was written")
	}
	require.Contains(t, out.String(), "[y/N]")
}

func TestFromTheNetworkTheUKIOfTheSameBuildIsTaken(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "dev"), 0o755))
	for _, name := range []string{"loop0", "loop1", "loop2"} {
		require.NoError(t, os.WriteFile(filepath.Join(root, "dev", name), make([]byte, 4096), 0o600))
	}
	uki := "MZ roothash=aaaa spore.clusterhash=bbbb"
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/boot/spore.efi" {
			status = http.StatusNotFound
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(uki))
	}))
	defer server.Close()
	m := node.New("spore-agent", paths.Root(root))
	m.Boot = bootinfo.Info{NetworkURL: server.URL + "/boot/", RootPart: "/dev/loop0", VerityPart: "/dev/loop1", ClusterPart: "/dev/loop2", RootHash: "aaaa", ClusterHash: "bbbb"}
	s, done, err := networkSource(t.Context(), m, Wanted{})
	require.NoError(t, err)
	done()
	require.Len(t, s.ESP, 1)
	require.Equal(t, LoaderPath, s.ESP[0].Path)
	require.EqualValues(t, len(uki), s.ESP[0].Size)

	m.Boot.ClusterHash = "cccc"
	_, _, err = networkSource(t.Context(), m, Wanted{})
	require.ErrorContains(t, err, "another build")
	status = http.StatusNotFound
	_, _, err = networkSource(t.Context(), m, Wanted{})
	require.ErrorContains(t, err, "404")
}

func TestTheServerIsToldThatTheSystemIsOnTheDisk(t *testing.T) {
	var told []string
	status := http.StatusNoContent
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		told = append(told, r.Method+" "+r.URL.String())
		w.WriteHeader(status)
	}))
	defer server.Close()
	m := node.New("spore-agent", paths.Root(t.TempDir()))
	m.Boot = bootinfo.Info{NetworkURL: server.URL + "/boot/"}
	require.Error(t, tellInstalled(t.Context(), m, "DISK0001"), "who it is, is not known")
	seen := detect.Seen{MACs: []string{"52:54:00:77:00:0b", "52:54:00:77:00:0c"}, Serial: "SN &1", UUID: "3a5b8f0e-0000-4000-8000-0000000000ff"}
	require.NoError(t, atomicfile.WriteJSON(m.Root.At(paths.Identity), detect.Identity{Seen: seen}))
	require.NoError(t, tellInstalled(t.Context(), m, "DISK0001"))
	require.Equal(t, []string{"POST /boot/installed?disk=DISK0001&mac=52%3A54%3A00%3A77%3A00%3A0b&mac=52%3A54%3A00%3A77%3A00%3A0c&serial=SN+%261&uuid=3a5b8f0e-0000-4000-8000-0000000000ff"}, told)

	status = http.StatusNotFound
	require.ErrorContains(t, tellInstalled(t.Context(), m, "DISK0001"), "404", "a server of one's own does not know of it")
	server.Close()
	require.Error(t, tellInstalled(t.Context(), m, "DISK0001"))
}
