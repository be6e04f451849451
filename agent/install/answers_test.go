package install

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/bootinfo"
	"spore/agent/detect"
	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/agent/state"
	"spore/cluster/facts"
	"spore/cluster/identity"
	"spore/cluster/spec"
	"spore/storage/atomicfile"
	"spore/storage/fat"
	"spore/storage/flash"
	"spore/storage/gpt"
)

const plantID = "6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d12"

// unattended is a machine that runs from a stick with an answer file, with a disk INNER that is empty.
func unattended(t *testing.T, answers string) *node.Machine {
	t.Helper()
	t.Setenv("CREDENTIALS_DIRECTORY", t.TempDir())
	m := live(t)
	m.Restart = func(context.Context) error { t.Error("it restarts"); return nil }
	m.PowerOff = func(context.Context) error { t.Error("it switches itself off"); return nil }
	part := strings.TrimPrefix(bootinfo.ClusterDir, "/")
	encode := func(v any) string { data, err := json.Marshal(v); require.NoError(t, err); return string(data) }
	index, err := identity.Build([]identity.Node{
		{Name: "edge-01", MACs: []string{"52:54:00:00:00:0e"}}, {Name: "storage-01", MACs: []string{"52:54:00:00:00:01"}},
	})
	require.NoError(t, err)
	require.NoError(t, atomicfile.WriteJSON(m.Root.At(paths.Identity), detect.Identity{}))
	for name, content := range map[string]string{
		path.Join(part, facts.IdentityIndex): string(index),
		path.Join(part, facts.ClusterFile): encode(facts.Cluster{
			Name: "plant", ID: plantID, SigningKeys: []string{base64.StdEncoding.EncodeToString(signingKey.Public().(ed25519.PublicKey))},
		}),
		path.Join(part, facts.NodeDir, "edge-01.json"): encode(facts.Node{Name: "edge-01"}),
		path.Join(part, facts.NodeDir, "storage-01.json"): encode(facts.Node{Name: "storage-01", Disks: []spec.Disk{
			{Use: "osd", Selector: spec.DiskSelector{WWN: "0x5000c500a1b2c3d4"}},
		}}),
		strings.TrimPrefix(bootinfo.Answers, "/"): answers,
		"sys/block/vda/device/wwid":               "naa.5000c500a1b2c3d4",
		// One that is there keeps it from mounting them.
		strings.TrimPrefix(nodetest.SecureBoot, "/"): "\x06\x00\x00\x00\x00",
	} {
		put(t, m, name, content)
	}
	return m
}

func put(t *testing.T, m *node.Machine, name, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(m.Root.At("/"+name)), 0o755))
	require.NoError(t, os.WriteFile(m.Root.At("/"+name), []byte(content), 0o600))
}

// runUnattended runs until the machine leaves or says that it waits, and returns what it said.
func runUnattended(t *testing.T, m *node.Machine) (said []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m.Say = func(line string) {
		said = append(said, line)
		if strings.Contains(line, "The machine waits") || strings.Contains(line, "stays on") {
			cancel()
		}
	}
	restart, off := m.Restart, m.PowerOff
	m.Restart = func(ctx context.Context) error { defer cancel(); return restart(ctx) }
	m.PowerOff = func(ctx context.Context) error { defer cancel(); return off(ctx) }
	err := Unattended(ctx, m)
	if err != nil {
		require.ErrorIs(t, err, context.Canceled)
	}
	return said
}

// holds is what is on the disk INNER.
func holds(t *testing.T, m *node.Machine) string {
	t.Helper()
	f, err := flash.OpenRead(m.Root.At("/dev/vda"))
	require.NoError(t, err)
	defer f.Close()
	return flash.Content(f, f.Size(), f.SectorSize())
}

// retable changes the partition table of the disk INNER.
func retable(t *testing.T, m *node.Machine, change func(*gpt.Table)) {
	t.Helper()
	f, err := flash.Open(m.Root.At("/dev/vda"))
	require.NoError(t, err)
	defer f.Close()
	table, err := gpt.Read(f, f.Size(), 512)
	if err != nil {
		require.ErrorIs(t, err, gpt.ErrNone)
		table = gpt.Table{Disk: guid(99)}
	}
	change(&table)
	e, err := table.Encode(f.Size(), 512)
	require.NoError(t, err)
	for at, data := range map[int64][]byte{e.BackupAt: e.Backup, 512: e.Primary, 0: e.MBR} {
		_, err := f.WriteAt(data, at)
		require.NoError(t, err)
	}
}

const forEdge = "node: edge-01\ndisk: {serial: INNER}\n"

func TestAnAnswerFileInstallsOnce(t *testing.T) {
	m := unattended(t, forEdge+"then: power-off\n")
	off := 0
	m.PowerOff = func(context.Context) error { off++; return nil }
	said := strings.Join(runUnattended(t, m), "\n")
	require.Equal(t, 1, off, said)
	require.Contains(t, said, "installing on /dev/vda")
	require.Contains(t, said, "read back and compared")
	require.Contains(t, said, "switching the machine off")
	require.Equal(t, "a system of Spore", holds(t, m))

	f, err := flash.OpenRead(m.Root.At("/dev/vda"))
	require.NoError(t, err)
	defer f.Close()
	table, err := gpt.Read(f, f.Size(), 512)
	require.NoError(t, err)
	files := espOf(t, f, table)
	require.Equal(t, "edge-01", files["/spore/node"])
	require.NotContains(t, files, "/spore/answers", "the disk does not install itself on another one")
	require.Equal(t, string(markOf(m, []byte(forEdge+"then: power-off\n"))), files["/spore/installed"])

	// The medium stays in the machine, and the firmware takes it first.
	said = strings.Join(runUnattended(t, m), "\n")
	require.Contains(t, said, ErrThere.Error())
	require.Contains(t, said, "Take the medium out")

	// The disk was updated meanwhile.
	retable(t, m, func(table *gpt.Table) { table.Partitions[1].GUID = guid(55) })
	said = strings.Join(runUnattended(t, m), "\n")
	require.Contains(t, said, ErrDone.Error())
	require.Equal(t, 1, off)

	// What does not go along is said when something is written, not at each try.
	put(t, m, strings.TrimPrefix(bootinfo.DeliveredNoCloud, "/"), "forged")
	said = strings.Join(runUnattended(t, m), "\n")
	require.NotContains(t, said, "not taken along")

	// Another file is another order.
	put(t, m, strings.TrimPrefix(bootinfo.Answers, "/"), forEdge+"then: stay\n")
	said = strings.Join(runUnattended(t, m), "\n")
	require.Contains(t, said, "read back and compared")
	require.Contains(t, said, "the machine stays on")
	require.Contains(t, said, "not taken along")
}

// A machine that was started from a disc has its bundle by the volume alone: the disk starts without that.
func TestTheBundleOfNoCloudGoesAlong(t *testing.T) {
	own, foreign := string(signed(t, "edge-01", 2)), string(signed(t, "storage-01", 9))
	older, newest := string(signed(t, "edge-01", 1)), string(signed(t, "edge-01", 3))
	_, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	forged := string(signedBy(t, key, plantID, "edge-01", 9))
	for name, tc := range map[string]struct {
		cloud, medium, want, says string
	}{
		"for the node":              {own, "", own, "the disk gets the bundle of NoCloud's user-data"},
		"with a passphrase":         {string(sealed), "", string(sealed), "the disk gets the bundle of NoCloud's user-data"},
		"beside that of a medium":   {own, "the medium's", "the medium's", "installing on"},
		"for another node":          {foreign, "", "", `is not taken along: the secret bundle is for another machine: it is for node "storage-01", and this is "edge-01"`},
		"by other keys":             {forged, "", "", "is not taken along: the secret bundle is not signed by this cluster"},
		"of another cluster":        {string(signedBy(t, signingKey, "6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11", "edge-01", 9)), "", "", "is not taken along: the secret bundle is for another machine"},
		"newer than the medium's":   {own, older, own, "the disk gets the bundle of NoCloud's user-data"},
		"older than the medium's":   {own, newest, newest, "installing on"},
		"forged, beside a good one": {forged, older, older, "is not taken along"},
		"damaged":                   {own[:len(own)/2], "", "", "is not taken along"},
		"too large":                 {strings.Repeat("x", bootinfo.MaxDelivered+1), "", "", "not installed: take the bundle of NoCloud along"},
		"none on medium or volume":  {"", "", "", "installing on"},
	} {
		t.Run(name, func(t *testing.T) {
			m := unattended(t, forEdge+"then: stay\n")
			require.NoError(t, os.Remove(m.Root.At(bootinfo.Delivered)))
			for path, content := range map[string]string{bootinfo.Delivered: tc.medium, bootinfo.DeliveredNoCloud: tc.cloud} {
				if content != "" {
					put(t, m, strings.TrimPrefix(path, "/"), content)
				}
			}
			said := strings.Join(runUnattended(t, m), "\n")
			require.Contains(t, said, tc.says)
			if strings.Contains(said, "not installed") {
				require.Equal(t, "nothing", holds(t, m))
				return
			}
			f, err := flash.OpenRead(m.Root.At("/dev/vda"))
			require.NoError(t, err)
			defer f.Close()
			table, err := gpt.Read(f, f.Size(), 512)
			require.NoError(t, err)
			require.Equal(t, tc.want, espOf(t, f, table)["/spore/bundle"])
		})
	}
}

// espOf are the files of a disk's ESP.
func espOf(t *testing.T, f *flash.File, table gpt.Table) map[string]string {
	t.Helper()
	out := map[string]string{}
	p := table.Partitions[0]
	fsys, err := fat.Open(io.NewSectionReader(f, p.Start, p.Size), p.Size)
	require.NoError(t, err)
	files, err := fsys.Walk()
	require.NoError(t, err)
	for _, file := range files {
		data := make([]byte, file.Size)
		_, err := file.Content.ReadAt(data, 0)
		require.NoError(t, err)
		out[file.Path] = string(data)
	}
	return out
}

func TestWhatAnAnswerFileDoesNotGet(t *testing.T) {
	statePartition := func(owner string) func(*testing.T, *node.Machine) {
		return func(t *testing.T, m *node.Machine) {
			retable(t, m, func(table *gpt.Table) {
				table.Partitions = []gpt.Partition{{
					Number: 5, Type: typeState, GUID: state.PartUUID(plantID, owner), Start: 4 << 30, Size: 512 * mib, Name: "spore-state",
				}}
			})
		}
	}
	for name, tc := range map[string]struct {
		answers string
		before  func(*testing.T, *node.Machine)
		want    string
	}{
		"a file that is not right": {"node: edge-01\ndisk: {serial: sda}\nthen: x\n", nil, `the answer file of the medium: line 2, column 16: "sda" is a kernel name`},
		"a node that there is not": {"node: ../edge-01\ndisk: {serial: INNER}\n", nil, `cluster.yaml has no node "../edge-01"`},
		"the word of another node": {forEdge, func(t *testing.T, m *node.Machine) { isNode(t, m, "storage-01") }, "it is for node edge-01, and this machine is storage-01, by its mac 52:54:00:00:00:01"},
		"the cards of another node, whatever the medium chooses": {forEdge, func(t *testing.T, m *node.Machine) {
			require.NoError(t, atomicfile.WriteJSON(m.Root.At(paths.Identity), detect.Identity{
				Result: identity.Result{Node: "edge-01", By: identity.ByESP, Value: "edge-01", Phase: 1},
				Seen:   detect.Seen{MACs: []string{"52:54:00:00:00:01"}},
			}))
		}, "it is for node edge-01, and this machine is storage-01, by its mac"},
		"encryption of its own":         {forEdge + "encrypt: tpm2\n", nil, "the configuration says state.encrypt: none"},
		"a disk that is not there":      {"node: edge-01\ndisk: {serial: OTHER}\n", nil, `no disk has the serial "OTHER"`},
		"the disk of an OSD":            {"node: storage-01\ndisk: {serial: INNER}\n", nil, "the node's file gives it to osd"},
		"state of another node":         {forEdge, statePartition("edge-02"), "it has state of another cluster or node"},
		"state of another node, erased": {forEdge + "state: erase\n", statePartition("edge-02"), "it has state of another cluster or node"},
		"a damaged table, erased": {forEdge + "state: erase\n", func(t *testing.T, m *node.Machine) {
			statePartition("edge-01")(t, m)
			f, err := os.OpenFile(m.Root.At("/dev/vda"), os.O_RDWR, 0)
			require.NoError(t, err)
			defer f.Close()
			for _, at := range []int64{512 + 40, 5<<30 - 512 + 40} {
				_, err = f.WriteAt([]byte("damaged"), at)
				require.NoError(t, err)
			}
		}, "its partition table is damaged"},
		"state erased with Secure Boot on": {forEdge + "state: erase\n", func(t *testing.T, m *node.Machine) {
			statePartition("edge-01")(t, m)
			put(t, m, strings.TrimPrefix(nodetest.SecureBoot, "/"), "\x06\x00\x00\x00\x01")
		}, "with Secure Boot on an answer file keeps state"},
		"another disk than the firmware says": {forEdge, func(t *testing.T, _ *node.Machine) {
			require.NoError(t, os.WriteFile(filepath.Join(os.Getenv("CREDENTIALS_DIRECTORY"), wordName), []byte("OTHER"), 0o600))
		}, `two disks are named for the system, "OTHER" by spore.install and "INNER" by the answer file`},
	} {
		t.Run(name, func(t *testing.T) {
			m := unattended(t, tc.answers)
			if tc.before != nil {
				tc.before(t, m)
			}
			before := holds(t, m)
			said := strings.Join(runUnattended(t, m), "\n")
			require.Contains(t, said, "not installed: ")
			require.Contains(t, said, tc.want)
			require.Equal(t, before, holds(t, m))
		})
	}
}

func TestAnAnswerFileOfAVolumeCountsWhereADiscWasStarted(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*node.Machine)
		want   string
	}{
		"from a disc":      {func(m *node.Machine) { m.Boot.BootDisk.Optical = true }, forEdge},
		"from the network": {func(m *node.Machine) { m.Boot.NetworkURL = "http://10.77.0.1/" }, ""},
		"from a disk":      {func(*node.Machine) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := unattended(t, "")
			m.ReadBoot()
			put(t, m, strings.TrimPrefix(bootinfo.AnswersNoCloud, "/"), forEdge)
			tc.change(m)
			data, err := fromVolume(t.Context(), m)
			require.NoError(t, err)
			require.Equal(t, tc.want, string(data))
		})
	}
}

// isNode says which node detection found.
func isNode(t *testing.T, m *node.Machine, name string) {
	t.Helper()
	require.NoError(t, atomicfile.WriteJSON(m.Root.At(paths.Identity), detect.Identity{
		Result: identity.Result{Node: name, By: "mac", Value: "52:54:00:00:00:01", Phase: 1},
	}))
}

func TestStateOfTheNodeIsKeptOrErased(t *testing.T) {
	for word, want := range map[string]string{"keep": "a system of Spore, and state of 512 MiB", "erase": "a system of Spore"} {
		t.Run(word, func(t *testing.T) {
			m := unattended(t, forEdge+"state: "+word+"\n")
			isNode(t, m, "edge-01")
			retable(t, m, func(table *gpt.Table) {
				table.Partitions = []gpt.Partition{{
					Number: 5, Type: typeState, GUID: state.PartUUID(plantID, "edge-01"), Start: 4 << 30, Size: 512 * mib, Name: "spore-state",
				}}
			})
			restarts := 0
			m.Restart = func(context.Context) error { restarts++; return nil }
			said := strings.Join(runUnattended(t, m), "\n")
			require.Equal(t, 1, restarts, said)
			require.Equal(t, want, holds(t, m))
			require.Equal(t, word == "keep", strings.Contains(said, "kept the state partition"), said)
		})
	}
}

func TestAChangedFileInstallsAgainTheSystemThatTheDiskHas(t *testing.T) {
	m := unattended(t, forEdge)
	restarts := 0
	m.Restart = func(context.Context) error { restarts++; return nil }
	runUnattended(t, m)
	require.Equal(t, 1, restarts)
	retable(t, m, func(table *gpt.Table) {
		table.Partitions = append(table.Partitions, gpt.Partition{
			Number: 5, Type: typeState, GUID: state.PartUUID(plantID, "edge-01"), Start: 4 << 30, Size: 512 * mib, Name: "spore-state",
		})
	})
	put(t, m, strings.TrimPrefix(bootinfo.Answers, "/"), forEdge+"state: erase\n")
	said := strings.Join(runUnattended(t, m), "\n")
	require.Equal(t, 2, restarts, said)
	require.Equal(t, "a system of Spore", holds(t, m), "its state is erased")

	said = strings.Join(runUnattended(t, m), "\n")
	require.Equal(t, 2, restarts, "the same file does nothing more")
	require.Contains(t, said, ErrThere.Error())
}

func TestTheServerHasTheAnswerFile(t *testing.T) {
	m := unattended(t, "")
	put(t, m, "proc/cmdline", "quiet spore.answers=yes\n")
	require.NoError(t, atomicfile.WriteJSON(m.Root.At(paths.Identity), detect.Identity{
		Result: identity.Result{Node: "edge-01", By: identity.ByMAC, Value: "52:54:00:00:00:0e", Phase: 1},
		Seen:   detect.Seen{MACs: []string{"52:54:00:00:00:0e"}, Serial: "S1", UUID: "u"},
	}))
	text, status, asked := forEdge+"then: stay\n", http.StatusOK, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text))
	}))
	defer server.Close()
	w, err := wanted(t.Context(), m, sources)
	require.NoError(t, err)
	require.Nil(t, w, "it was not started from a server")
	m.Boot = bootinfo.Info{NetworkURL: server.URL + "/boot/", EFI: true}
	w, err = wanted(t.Context(), m, sources)
	require.NoError(t, err)
	require.Equal(t, "/boot/answers?mac=52%3A54%3A00%3A00%3A00%3A0e&serial=S1&uuid=u", asked)
	require.Equal(t, "INNER", w.name)
	require.Equal(t, spec.ThenStay, w.then)

	status = http.StatusNotFound
	_, err = wanted(t.Context(), m, sources)
	require.ErrorContains(t, err, "read the answer file of the server: ")
	require.ErrorContains(t, err, "404")
	status, text = http.StatusOK, "node: mail\n"
	_, err = wanted(t.Context(), m, sources)
	require.ErrorContains(t, err, "the answer file of the server: line 1, column 1: the key \"disk\" is missing")

	put(t, m, "proc/cmdline", "quiet\n")
	w, err = wanted(t.Context(), m, sources)
	require.NoError(t, err)
	require.Nil(t, w, "the server says of none")
}

func TestAFileThatIsOutOfDateHoldsNoNodeUpThatRunsFromItsDisk(t *testing.T) {
	m := unattended(t, forEdge+"encrypt: tpm2\n")
	require.NoError(t, bootinfo.Write(m.Root.At(bootinfo.Path), bootinfo.Info{BootDisk: bootinfo.Disk{Path: "/dev/vda"}, EFI: true}))
	require.Empty(t, runUnattended(t, m))
	require.Equal(t, "nothing", holds(t, m))
}
