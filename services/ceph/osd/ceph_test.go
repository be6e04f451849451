//go:build ceph

package osd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/storage/gpt"
)

// This runs where Ceph's programs are, as in the tree of an image:
//
//	CGO_ENABLED=0 go test -c -tags ceph -o osd.test ./services/ceph/osd
//	unshare -n sh -c 'ip link set lo up; exec chroot TREE osd.test -test.v -test.run EmptyDisk'

const fsid = "11112222-3333-4444-8555-666677778888"

// cluster is a monitor and a manager, and what it takes to ask them.
type cluster struct {
	t   *testing.T
	dir string
	// bootstrapKey is that of client.bootstrap-osd.a.
	bootstrapKey string
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t, dir: t.TempDir()}
	c.write("ceph.conf", `[global]
fsid = `+fsid+`
keyring = `+c.dir+`/bootstrap.keyring
mon_host = [v2:127.0.0.1:3300]
ms_bind_msgr1 = false
log_to_file = false
log_to_stderr = true
mon_cluster_log_to_file = false
run_dir = `+c.dir+`
crash_dir = `+c.dir+`
osd_pool_default_size = 1
osd_pool_default_min_size = 1
mon_allow_pool_size_one = true
mon_warn_on_pool_no_redundancy = false
auth_allow_insecure_global_id_reclaim = false
osd_crush_chooseleaf_type = 0
[mon.a]
keyring = `+c.dir+`/mon/keyring
mon_data = `+c.dir+`/mon
public_addrv = [v2:127.0.0.1:3300]
[mgr.a]
mgr_data = `+c.dir+`/mgr
keyring = `+c.dir+`/mgr.keyring
`)
	c.run("ceph-authtool", "--create-keyring", c.at("keyring"), "--gen-key", "-n", "mon.", "--cap", "mon", "allow *")
	c.run("ceph-authtool", c.at("keyring"), "--gen-key", "-n", "client.admin", "--cap", "mon", "allow *", "--cap", "osd", "allow *", "--cap", "mgr", "allow *")
	c.run("ceph-authtool", c.at("keyring"), "--gen-key", "-n", "client.bootstrap-osd.a", "--cap", "mon", "allow service mon r, allow service osd r, allow command 'osd new'")
	c.run("ceph-authtool", c.at("keyring"), "--gen-key", "-n", "mgr.a", "--cap", "mon", "allow profile mgr", "--cap", "osd", "allow *")
	c.bootstrapKey = strings.TrimSpace(string(c.run("ceph-authtool", c.at("keyring"), "-p", "-n", "client.bootstrap-osd.a")))
	mgr := strings.TrimSpace(string(c.run("ceph-authtool", c.at("keyring"), "-p", "-n", "mgr.a")))
	c.write("bootstrap.keyring", "[client.bootstrap-osd.a]\nkey = "+c.bootstrapKey+"\n")
	c.write("mgr.keyring", "[mgr.a]\nkey = "+mgr+"\n")
	c.run("monmaptool", "--create", "--addv", "a", "[v2:127.0.0.1:3300]", "--fsid", fsid, "--enable-all-features", "--set-min-mon-release", "18", c.at("monmap"))
	require.NoError(t, os.Mkdir(c.at("mgr"), 0o700))
	c.run("ceph-mon", "--conf", c.at("ceph.conf"), "--mkfs", "-i", "a", "--monmap", c.at("monmap"), "--keyring", c.at("keyring"))
	c.start("ceph-mon", "-i", "a")
	c.start("ceph-mgr", "-i", "a")
	return c
}

func (c *cluster) at(name string) string { return filepath.Join(c.dir, name) }

func (c *cluster) write(name, text string) {
	require.NoError(c.t, os.WriteFile(c.at(name), []byte(text), 0o600))
}

func (c *cluster) run(name string, args ...string) []byte {
	c.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(c.t, err, "%s %v: %s", name, args, out)
	return out
}

// start starts a daemon and returns what kills it.
func (c *cluster) start(name string, args ...string) (kill func()) {
	c.t.Helper()
	log, err := os.Create(c.at(name + ".log"))
	require.NoError(c.t, err)
	cmd := exec.Command(name, append([]string{"-f", "--conf", c.at("ceph.conf")}, args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(c.t, cmd.Start())
	kill = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	c.t.Cleanup(func() {
		kill()
		if c.t.Failed() {
			data, _ := os.ReadFile(log.Name())
			c.t.Logf("%s:\n%s", name, data[max(0, len(data)-3000):])
		}
	})
	return kill
}

// ceph is the administrator.
func (c *cluster) ceph(args ...string) string {
	c.t.Helper()
	out, err := exec.Command("ceph", append([]string{"--conf", c.at("ceph.conf"), "--keyring", c.at("keyring"), "--connect-timeout", "30"}, args...)...).Output()
	require.NoError(c.t, err, "%v", args)
	return string(out)
}

func (c *cluster) rados(args ...string) {
	c.t.Helper()
	c.run("rados", append([]string{"--conf", c.at("ceph.conf"), "--keyring", c.at("keyring")}, args...)...)
}

// disk is a file that an OSD is made on.
func (c *cluster) disk(name string, size int64) string {
	f, err := os.Create(c.at(name))
	require.NoError(c.t, err)
	require.NoError(c.t, f.Truncate(size))
	require.NoError(c.t, f.Close())
	return f.Name()
}

func (c *cluster) options(device string, uuid gpt.GUID) Options {
	dir := c.at("run-" + filepath.Base(device))
	require.NoError(c.t, os.MkdirAll(dir, 0o700))
	return Options{
		Device: device, UUID: uuid, FSID: fsid, User: "client.bootstrap-osd.a", BootstrapKey: c.bootstrapKey, Dir: dir, Config: c.at("ceph.conf"), Keyring: c.at("bootstrap.keyring"),
		Say: func(s string) { c.t.Log(s) }, Waiting: func(string) {},
		Exec: func(ctx context.Context, input []byte, name string, args ...string) ([]byte, error) {
			cmd := exec.CommandContext(ctx, name, args...)
			cmd.Stdin = bytes.NewReader(input)
			var out, bad bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &bad
			if err := cmd.Run(); err != nil {
				return nil, fmt.Errorf("%w: %s", err, bad.Bytes()[max(0, bad.Len()-1000):])
			}
			return out.Bytes(), nil
		},
		Sleep: func(ctx context.Context, d time.Duration) error { time.Sleep(d); return ctx.Err() },
	}
}

// withCeph is a command of the user that asks for numbers.
func (o Options) withCeph(args ...string) ([]byte, error) {
	return o.Exec(context.Background(), nil, cephProgram, append([]string{"--conf", o.Config, "--name", o.User, "--keyring", o.Keyring, "--connect-timeout", "30"}, args...)...)
}

// startOSD starts a prepared OSD and waits until the cluster has it.
func (c *cluster) startOSD(o Options, id int) (kill func()) {
	data := filepath.Join(o.Dir, Data)
	kill = c.start("ceph-osd", "--id", fmt.Sprint(id), "--osd-data", data, "--keyring", filepath.Join(data, "keyring")) // As the unit does.
	require.Eventually(c.t, func() bool {
		var s struct {
			OSDs []struct{ OSD, Up, In int }
		}
		require.NoError(c.t, json.Unmarshal([]byte(c.ceph("osd", "dump", "-f", "json")), &s))
		for _, i := range s.OSDs {
			if i.OSD == id {
				return i.Up == 1 && i.In == 1
			}
		}
		return false
	}, time.Minute, time.Second)
	return kill
}

func (c *cluster) object(seed uint64) (path string, hash [32]byte) {
	b := make([]byte, 64<<20)
	rng := rand.New(rand.NewPCG(seed, 0))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	path = c.at("object")
	require.NoError(c.t, os.WriteFile(path, b, 0o600))
	return path, sha256.Sum256(b)
}

func TestAnOSDFromAnEmptyDisk(t *testing.T) {
	c := newCluster(t)
	uuid := gpt.MustParseGUID("c0ffee00-0000-8000-8000-000000000001")
	o := c.options(c.disk("one", 4<<30), uuid)

	id, err := Prepare(context.Background(), o)
	require.NoError(t, err)
	require.Equal(t, 0, id)
	keep(t, o.Device, "ready")
	kill := c.startOSD(o, id)
	require.Contains(t, c.ceph("osd", "metadata", "0"), `"osd_objectstore": "bluestore"`)

	c.ceph("osd", "pool", "create", "test", "8", "8", "replicated", "--size", "1", "--yes-i-really-mean-it")
	path, hash := c.object(1)
	c.rados("-p", "test", "put", "object", path)
	kill()

	t.Run("after a kill it comes back from its disk alone", func(t *testing.T) {
		require.NoError(t, os.RemoveAll(o.Dir))
		again := c.options(o.Device, uuid)
		again.Exec = nil // Nobody is asked.
		id, err := Prepare(context.Background(), again)
		require.NoError(t, err)
		require.Equal(t, 0, id)
		c.startOSD(again, id)
		c.rados("-p", "test", "get", "object", c.at("got"))
		got, err := os.ReadFile(c.at("got"))
		require.NoError(t, err)
		require.Equal(t, hash, sha256.Sum256(got))
	})
	t.Run("a disk that was given a number and nothing else gets the same again", func(t *testing.T) {
		u := gpt.MustParseGUID("c0ffee00-0000-8000-8000-000000000002")
		o := c.options(c.disk("two", 2<<30), u)
		key, err := Key(c.bootstrapKey, u)
		require.NoError(t, err)
		for range 2 {
			id, err := o.number(context.Background(), key)
			require.NoError(t, err)
			require.Equal(t, 1, id)
		}
		id, err := Prepare(context.Background(), o)
		require.NoError(t, err)
		require.Equal(t, 1, id)
	})
	t.Run("its user may do that and nothing else", func(t *testing.T) {
		for _, args := range [][]string{
			{"osd", "purge-new", "1", "--yes-i-really-mean-it"}, {"osd", "purge", "0", "--yes-i-really-mean-it"}, {"osd", "out", "0"}, {"auth", "ls"}, {"auth", "get", "osd.0"},
			{"config-key", "ls"}, {"osd", "pool", "ls"},
		} {
			_, err := o.withCeph(args...)
			if args[0] == "osd" && args[1] == "pool" {
				require.NoError(t, err, "it may read what the map of OSDs says")
				continue
			}
			require.ErrorContains(t, err, "EACCES", "%v", args)
		}
		require.Contains(t, c.ceph("osd", "ls"), "1")
	})
	for n, when := range []string{"a label", "mkfs_done"} {
		t.Run("when mkfs is killed with "+when+" and no ready it is made again", func(t *testing.T) {
			u := gpt.MustParseGUID(fmt.Sprintf("c0ffee00-0000-8000-8000-00000000001%d", n))
			o := c.options(c.disk("three"+fmt.Sprint(n), 2<<30), u)
			caught := false
			for try := 0; try < 20 && !caught; try++ {
				require.NoError(t, os.Truncate(o.Device, 0))
				require.NoError(t, os.Truncate(o.Device, 2<<30))
				ctx, cancel := context.WithCancel(context.Background())
				go func() {
					for ctx.Err() == nil {
						if l, err := labelOf(o.Device); err == nil && (when == "a label" || l.Meta[when] != "") {
							cancel()
						}
						time.Sleep(100 * time.Microsecond)
					}
				}()
				_, err := Prepare(ctx, o)
				cancel()
				l, lerr := labelOf(o.Device)
				caught = err != nil && lerr == nil && l.Meta["ready"] == "" && (when == "mkfs_done") == (l.Meta["mkfs_done"] != "")
			}
			require.True(t, caught, "20 times mkfs was faster than the kill")
			keep(t, o.Device, "without-"+map[string]string{"a label": "mkfs_done", "mkfs_done": "ready"}[when])
			id, err := Prepare(context.Background(), o)
			require.NoError(t, err)
			require.Equal(t, 2+n, id)
			c.startOSD(o, id)
		})
	}
}

func labelOf(device string) (label, error) {
	f, err := os.Open(device)
	if err != nil {
		return label{}, err
	}
	defer f.Close()
	return readLabel(f)
}

// keep writes the label of a device into the folder SPORE_LABELS, if that is set: they are in testdata.
func keep(t *testing.T, device, name string) {
	dir := os.Getenv("SPORE_LABELS")
	if dir == "" {
		return
	}
	b := make([]byte, labelSize)
	f, err := os.Open(device)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.ReadAt(b, 0)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o644))
}
