package cluster

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"spore/cluster/check"
)

// folder reads a configuration folder into memory, so that a test can change it.
func folder(t testing.TB, dir string) fstest.MapFS {
	out := fstest.MapFS{}
	require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(os.DirFS(dir), p)
		out[p] = &fstest.MapFile{Data: data}
		return err
	}))
	return out
}

// serious drops the notes.
func serious(r check.Report) string {
	var b strings.Builder
	for _, p := range r {
		if p.Severity != check.Note {
			b.WriteString(p.String() + "\n")
		}
	}
	return b.String()
}

// messages drops the positions.
func messages(r check.Report) []string {
	var out []string
	for _, p := range r {
		out = append(out, p.Severity.String()+": "+p.Message)
	}
	return out
}

func TestTheExampleOfAnEdgeHasNotesOnly(t *testing.T) {
	_, report := Check(os.DirFS("../examples/edge"), Options{Strict: true})
	require.Equal(t, []string{
		"note: node mqtt-01 is recognised only by the address or host name that DHCP gives it, which is not a proof of identity: mosquitto waits until the node's secrets are on its own state partition or arrive by an approved path; add macs, serial or uuid to avoid this",
		"note: node dns-01 is recognised only by the address or host name that DHCP gives it, or when somebody chooses it; add macs, serial or uuid unless you want that",
	}, messages(report))
}

func TestAnImageHasItsDefaultsWhateverIsLeftOut(t *testing.T) {
	for name, text := range map[string]string{"no file": "", "without the keys": "packages: [tcpdump]\n"} {
		files := manyNodes(1)
		if text != "" {
			files["image.yaml"] = &fstest.MapFile{Data: []byte(text)}
		}
		c, report := Load(files)
		require.NoError(t, report.Err(), name)
		require.Equal(t, "trixie", c.Image.Suite, name)
		require.Equal(t, "generic", c.Image.Kernel, name)
	}
}

func TestTheExampleOfEverythingIsWithoutFault(t *testing.T) {
	_, report := Check(os.DirFS("../configs"), Options{Strict: true})
	require.Empty(t, messages(report))
}

func TestTheExampleOfKubernetesIsWithoutFault(t *testing.T) {
	_, report := Check(os.DirFS("../examples/kubernetes"), Options{Strict: true})
	require.Empty(t, messages(report))
}

func TestTheExampleOfAPlantIsWithoutFault(t *testing.T) {
	_, report := Check(os.DirFS("../examples/plant"), Options{Strict: true})
	require.Empty(t, messages(report))
}

func TestTheSixNodeClusterIsWithoutFault(t *testing.T) {
	_, report := Check(os.DirFS("testdata/six-nodes"), Options{Strict: true})
	require.Empty(t, messages(report))
}

// manyNodes is a cluster of n nodes, every tenth with a file of its own.
func manyNodes(n int) fstest.MapFS {
	out := fstest.MapFS{}
	var b strings.Builder
	b.WriteString("name: big\nid: 6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11\ndomain: big.example\nnetwork:\n  nodeSubnets: [10.64.0.0/16]\n  gateways: [10.64.255.1]\n  nameservers: [192.0.2.53]\nservices: [dns]\nnodes:\n")
	for i := range n {
		ip := fmt.Sprintf("10.64.%d.%d", i/250, i%250+1)
		mac := fmt.Sprintf("52:54:00:%02x:%02x:%02x", i>>16, i>>8&255, i&255)
		fmt.Fprintf(&b, "  - name: node-%05d\n    hostname: host-%05d\n    macs: [\"%s\"]\n    ips: [%s]\n    serial: SN-%06d-X\n    uuid: 4c4c4544-0043-4a10-8052-%012x\n    roles: [dns-server]\n", i, i, mac, ip, i, i+1)
		if i%10 == 0 {
			out[fmt.Sprintf("nodes/node-%05d.yaml", i)] = &fstest.MapFile{Data: fmt.Appendf(nil,
				"node: node-%05d\ninterfaces:\n  - mac: \"%s\"\n    addresses: [%s/16]\ndisks:\n  - {use: state, selector: {serial: DISK-%05d}}\nsysctl:\n  net.core.somaxconn: \"4096\"\n", i, mac, ip, i)}
		}
	}
	out["cluster.yaml"] = &fstest.MapFile{Data: []byte(b.String())}
	out["services/dns.yaml"] = &fstest.MapFile{Data: []byte("ttl: 30\n")}
	return out
}

func TestTenThousandNodesAreCheckedInUnderTwoSeconds(t *testing.T) {
	files := manyNodes(10_000)
	best := time.Hour
	for range 3 {
		start := usedCPU(t) // and not the clock's time: the machine may be busy with other tests
		c, report := Check(files, Options{})
		best = min(best, usedCPU(t)-start)
		require.Empty(t, report.String())
		require.Len(t, c.Cluster.Nodes, 10_000)
	}
	t.Logf("10,000 nodes in %v", best)
	require.Less(t, best, 2*time.Second)
}

// usedCPU is the processor time of this process so far.
func usedCPU(t *testing.T) time.Duration {
	var r syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &r))
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func TestManyMistakesAreFoundInBoundedTime(t *testing.T) {
	files := manyNodes(10_000)
	files["cluster.yaml"].Data = []byte(strings.NewReplacer("name: node-", "name: knot-", "roles: [dns-server]", "roles: [dns-sever]").Replace(string(files["cluster.yaml"].Data)))
	start := time.Now()
	_, report := Check(files, Options{})
	require.Greater(t, report.Count(check.Error), 10_000)
	require.Less(t, time.Since(start), 20*time.Second)
}

func BenchmarkCheckTenThousandNodes(b *testing.B) {
	files := manyNodes(10_000)
	for b.Loop() {
		if _, report := Check(files, Options{}); report.Failed() {
			b.Fatal(report)
		}
	}
}

func BenchmarkCompileTenThousandNodes(b *testing.B) {
	c, _ := Load(manyNodes(10_000))
	for b.Loop() {
		if _, err := Compile(c); err != nil {
			b.Fatal(err)
		}
	}
}
