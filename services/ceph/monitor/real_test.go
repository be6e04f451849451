//go:build ceph

package monitor

// These tests run Ceph's own programs, which are Debian's of trixie: run them in a root that has them, such as one unpacked
// from an image with the role ceph-mon:
//
//	CGO_ENABLED=0 go test -c -tags ceph -o ROOT/tmp/ceph.test ./services/ceph/monitor && chroot ROOT /tmp/ceph.test -test.v

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/ceph"
	cephnode "spore/services/ceph/node"
	"spore/services/kubernetes"
	"spore/services/rendering"
)

const testFSID = "0f5a0e3c-5a0f-4d6e-8b8e-2a2d8b1c9f11"

// realKey is a key of Ceph that was made at a time.
func realKey(made, n byte) string { return testKey(made, n) }

// machine is a node with a monitor, on an address of the loopback network.
type machine struct {
	t     *testing.T
	name  string
	dir   string
	in    rendering.Input
	store Store
	mon   *exec.Cmd
	mgr   *exec.Cmd
}

var addresses = map[string]string{"a": "127.0.0.1", "b": "127.0.0.2", "c": "127.0.0.3"}

func newMachine(t *testing.T, name string, members []string, c *ceph.Settings, made byte) *machine {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "mon"), 0o755))
	hosts := ""
	for _, m := range members {
		hosts += addresses[m] + " " + m + "\n"
	}
	m := &machine{t: t, name: name, dir: dir, in: rendering.Input{
		Cluster: &facts.Cluster{Name: "lab", Domain: "lab.internal", Members: map[string][]string{"ceph-mon": members, "ceph-osd": {"o"}, "control-plane": {"k"}, "worker": {"w"}}, Services: spec.Services{c, &kubernetes.Settings{}}},
		Node:    &facts.Node{Name: name, IPs: []string{addresses[name]}},
		Dir:     dir,
		Secret: func(ref string) ([]byte, error) {
			if ref == "ceph-fsid" {
				return []byte(testFSID), nil
			}
			s, err := keyOf(name, made)(ref)
			return []byte(s), err
		},
	}}
	for program := range map[string]bool{"ceph-mon": true, "ceph-mgr": true, "ceph-bootstrap": true} {
		m.in.Hosts, m.in.Dir = strings.NewReader(hosts), filepath.Join(dir, program)
		files, err := cephnode.Renderings[program](m.in)
		require.NoError(t, err)
		for n, f := range files {
			f.Data = []byte(strings.ReplaceAll(string(f.Data), "/var/lib/ceph/", dir+"/"))
			files[n] = f
		}
		require.NoError(t, os.MkdirAll(m.in.Dir, 0o755))
		for name, f := range files {
			require.NoError(t, os.WriteFile(filepath.Join(m.in.Dir, name), f.Data, f.Mode))
		}
	}
	m.store = Store{
		Dir: filepath.Join(dir, "mon", "ceph-"+name), FSID: testFSID, Name: name, Conf: filepath.Join(dir, "ceph-mon", "ceph.conf"),
		Keyring: filepath.Join(dir, "ceph-mon", "keyring"), Scratch: filepath.Join(dir, "ceph-mon"), Run: Exec(nil), Say: func(s string) { t.Log(name + ": " + s) },
		Pause: 500 * time.Millisecond,
	}
	return m
}

// keyOf gives each entry a key of its own.
func keyOf(node string, made byte) func(string) (string, error) {
	return func(ref string) (string, error) {
		if ref != "ceph-mgr-key" {
			node = "" // the same on all
		}
		n := byte(0)
		for _, c := range []byte(ref + node) {
			n = n*31 + c
		}
		return realKey(made, n), nil
	}
}

func (m *machine) monitors() []cephnode.Monitor {
	var out []cephnode.Monitor
	for _, n := range m.in.Cluster.Members["ceph-mon"] {
		out = append(out, cephnode.Monitor{Name: n, Addr: netip.MustParseAddr(addresses[n])})
	}
	return out
}

func (m *machine) start(program string) *exec.Cmd {
	log, err := os.Create(filepath.Join(m.dir, program+".log"))
	require.NoError(m.t, err)
	cmd := exec.Command("/usr/bin/"+program, "-f", "-c", filepath.Join(m.dir, program, "ceph.conf"), "--id", m.name)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "PYTHONPYCACHEPREFIX="+filepath.Join(m.dir, "python"))
	require.NoError(m.t, cmd.Start())
	m.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if m.t.Failed() {
			data, _ := os.ReadFile(log.Name())
			m.t.Logf("%s of %s:\n%s", program, m.name, data[max(0, len(data)-3000):])
		}
	})
	return cmd
}

func (m *machine) quorum(ctx context.Context) error {
	return AwaitQuorum(ctx, filepath.Join(m.dir, "ceph-mon", "mon."+m.name+".asok"), func() bool { return m.mon.ProcessState == nil }, m.store.Say)
}

func (m *machine) bootstrap(ctx context.Context) (said []string) {
	want, err := Wanted(m.in.Cluster, m.name, func(ref string) (string, error) { b, err := m.in.Secret(ref); return string(b), err })
	require.NoError(m.t, err)
	require.NoError(m.t, Bootstrap(ctx, Options{
		Client: Client{Run: Exec(nil), Conf: filepath.Join(m.dir, "ceph-bootstrap", "ceph.conf"), Entity: "mon."}, Want: want,
		Say: func(s string) { said = append(said, s) }, Status: func(string) {}, Pause: time.Second,
	}))
	return said
}

// ceph gives a command as people do.
func (m *machine) ceph(args ...string) string {
	out, err := exec.Command("/usr/bin/ceph", append([]string{"-c", filepath.Join(m.dir, "ceph-bootstrap", "ceph.conf"), "--connect-timeout", "20"}, args...)...).CombinedOutput()
	require.NoError(m.t, err, "%s", out)
	return string(out)
}

func (m *machine) numbers() {
	for what, cmd := range map[string]*exec.Cmd{"mon": m.mon, "mgr": m.mgr} {
		if cmd == nil {
			continue
		}
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		_, rss, _ := strings.Cut(string(status), "VmRSS:")
		rss, _, _ = strings.Cut(rss, "\n")
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		f := strings.Fields(string(stat))
		m.t.Logf("%s.%s: RSS %s, CPU ticks (10 ms) %s + %s", what, m.name, strings.TrimSpace(rss), f[13], f[14])
	}
}

func TestOneMonitorFormsAndIsGivenWhatCephYAMLSays(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 6*time.Minute)
	defer cancel()
	settings := &ceph.Settings{PoolSize: 1, FailureDomain: "osd", Pools: []ceph.Pool{{Name: "volumes", Kubernetes: true}, {Name: "two", Size: 2, MinSize: 1, Application: "rados"}},
		Filesystems: []ceph.Filesystem{{Name: "files", Kubernetes: true}}}
	a := newMachine(t, "a", []string{"a"}, settings, 1)
	empty, err := a.store.Empty()
	require.NoError(t, err)
	require.True(t, empty)
	// A power cut left something half made.
	require.NoError(t, os.MkdirAll(a.store.Dir+".new/store.db", 0o700))
	require.NoError(t, a.store.Form(ctx, a.monitors()))
	require.NoError(t, a.store.Check())
	a.mon = a.start("ceph-mon")
	began := time.Now()
	require.NoError(t, a.quorum(ctx))
	t.Logf("quorum after %.1f s", time.Since(began).Seconds())

	began = time.Now()
	said := a.bootstrap(ctx)
	t.Logf("bootstrap: %.1f s\n%s", time.Since(began).Seconds(), strings.Join(said, "\n"))
	require.NotEmpty(t, said)
	began = time.Now()
	require.Empty(t, a.bootstrap(ctx), "the second time nothing is missing")
	t.Logf("second bootstrap: %.1f s", time.Since(began).Seconds())

	a.mgr = a.start("ceph-mgr")
	require.Eventually(t, func() bool { return strings.Contains(a.ceph("mgr", "stat"), `"available": true`) }, 3*time.Minute, time.Second)
	require.Contains(t, a.ceph("osd", "pool", "ls", "detail"), "'volumes' replicated size 1 min_size 1")
	require.Contains(t, a.ceph("osd", "pool", "ls", "detail"), "'two' replicated size 2 min_size 1")
	for entity, caps := range map[string]int{"client.kubernetes-rbd.k": 3, "client.kubernetes-rbd.w": 2} {
		auth := a.ceph("auth", "get", entity)
		require.Contains(t, auth, `caps osd = "profile rbd pool=volumes"`)
		require.Equal(t, caps, strings.Count(auth, "caps "), auth)
	}
	for entity, manager := range map[string]bool{"client.kubernetes-cephfs.k": true, "client.kubernetes-cephfs.w": false} {
		auth := a.ceph("auth", "get", entity)
		require.Contains(t, auth, `caps mds = "allow rw fsname=files path=/volumes/kubernetes"`)
		require.Equal(t, manager, strings.Contains(auth, "caps mgr = "), auth)
	}
	require.NotContains(t, a.ceph("auth", "ls"), "client.bootstrap-osd\n", "the one that the monitor makes by itself is gone")
	require.Contains(t, a.ceph("auth", "get", "client.bootstrap-osd.o"), `caps mon = "allow service mon r, allow service osd r, allow command 'osd new'"`)
	time.Sleep(5 * time.Second)
	health := a.ceph("health", "detail")
	t.Log(health)
	require.NotContains(t, health, "INSECURE")
	require.NotContains(t, health, "POOL_NO_REDUNDANCY")
	t.Log(a.ceph("mgr", "services"), a.ceph("mgr", "module", "ls"), a.ceph("-s"))
	a.numbers()

	// A newer bundle brings newer keys; an older one changes nothing.
	newer := newMachine(t, "a", []string{"a"}, settings, 2)
	newer.dir = a.dir // with the key that the monitors know
	require.Contains(t, strings.Join(newer.bootstrap(ctx), "\n"), "the key of client.kubernetes-rbd.w")
	require.Empty(t, newer.bootstrap(ctx))
	require.Empty(t, a.bootstrap(ctx), "an older bundle brings back no older key")

	// And the same monitor starts again from its data.
	require.NoError(t, a.mon.Process.Signal(syscall.SIGTERM))
	_ = a.mon.Wait()
	require.NoError(t, a.store.Check())
	a.mon = a.start("ceph-mon")
	require.NoError(t, a.quorum(ctx))

	other := a.store
	other.FSID = "11111111-5a0f-4d6e-8b8e-2a2d8b1c9f11"
	require.ErrorContains(t, other.Check(), `is data of the storage cluster "`+testFSID+`", and the bundle of this node is for 11111111-`)
}

func TestAWipedMonitorTakesEverythingFromTheQuorum(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 6*time.Minute)
	defer cancel()
	names := []string{"a", "b", "c"}
	all := map[string]*machine{}
	for _, n := range names {
		m := newMachine(t, n, names, &ceph.Settings{}, 1)
		require.NoError(t, m.store.Form(ctx, m.monitors()))
		m.mon = m.start("ceph-mon")
		all[n] = m
	}
	for _, n := range names {
		require.NoError(t, all[n].quorum(ctx))
	}
	require.NotEmpty(t, all["a"].bootstrap(ctx))
	b := all["b"]
	require.Len(t, b.bootstrap(ctx), 1, "the key of its own manager")

	// b loses power and its disk.
	require.NoError(t, b.mon.Process.Kill())
	_ = b.mon.Wait()
	require.NoError(t, os.RemoveAll(b.store.Dir))
	require.Eventually(t, func() bool { return strings.Contains(all["a"].ceph("quorum_status"), `"quorum_names":["a","c"]`) }, time.Minute, time.Second)
	require.NoError(t, b.store.Join(ctx, []string{"a", "c"}))
	b.mon = b.start("ceph-mon")
	require.NoError(t, b.quorum(ctx))
	require.Contains(t, all["c"].ceph("quorum_status"), `"quorum_names":["a","b","c"]`)
	require.Contains(t, b.ceph("auth", "get", "client.kubernetes-rbd.w"), "profile rbd pool=rbd", "it has the data again")

	// Without a quorum it waits, and says for whom.
	for _, n := range []string{"a", "c"} {
		require.NoError(t, all[n].mon.Process.Kill())
		_ = all[n].mon.Wait()
	}
	require.NoError(t, b.mon.Process.Kill())
	_ = b.mon.Wait()
	require.NoError(t, os.RemoveAll(b.store.Dir))
	var said []string
	b.store.Say = func(s string) { said = append(said, s) }
	short, stop := context.WithTimeout(ctx, 15*time.Second)
	defer stop()
	require.ErrorIs(t, b.store.Join(short, []string{"a", "c"}), context.DeadlineExceeded)
	require.Contains(t, strings.Join(said, "\n"), "waits for a quorum of the other monitors (a, c)")
	require.NoDirExists(t, b.store.Dir, "it formed nothing alone")

	// The others come back, and it joins them.
	for _, n := range []string{"a", "c"} {
		all[n].mon = all[n].start("ceph-mon")
	}
	require.NoError(t, b.store.Join(ctx, []string{"a", "c"}))
	b.mon = b.start("ceph-mon")
	require.NoError(t, b.quorum(ctx))
	for _, n := range names {
		all[n].numbers()
	}
}

func TestAMonitorThatIsNewInClusterYAMLAddsItself(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 6*time.Minute)
	defer cancel()
	a := newMachine(t, "a", []string{"a"}, &ceph.Settings{}, 1)
	require.NoError(t, a.store.Form(ctx, a.monitors()))
	a.mon = a.start("ceph-mon")
	require.NoError(t, a.quorum(ctx))
	b := newMachine(t, "b", []string{"a", "b"}, &ceph.Settings{}, 1)
	require.NoError(t, b.store.Join(ctx, []string{"a"}))
	b.mon = b.start("ceph-mon")
	require.NoError(t, b.quorum(ctx))
	require.Contains(t, a.ceph("quorum_status"), `"quorum_names":["a","b"]`)
	require.Contains(t, a.ceph("mon", "dump"), "v2:127.0.0.2:3300/0 mon.b")
	require.NotContains(t, a.ceph("mon", "dump"), "v1:")
}
