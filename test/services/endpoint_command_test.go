//go:build e2e

package services

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"spore/agent/bootinfo"
	"spore/agent/detect"
	"spore/agent/netnstest"
	"spore/agent/paths"
	"spore/cluster"
	"spore/services/kubernetes/vip/holder"
	"spore/test/kubecluster"
)

// endpointProgram has the path of spore-etcd.
const endpointProgram = "SPORE_TEST_ENDPOINT_PROGRAM"

// TestTheEndpointCommand runs `spore-etcd endpoint` as its unit does, beside etcd and the API server of a master, with the keys
// and files that a node has: in a network of its own, and with folders of its own below /run.
func TestTheEndpointCommand(t *testing.T) {
	if os.Getenv(endpointProgram) == "" {
		// Built here, since the network of the test leads to no modules.
		program := filepath.Join(t.TempDir(), "spore-etcd")
		out, err := exec.Command("go", "build", "-o", program, "../../agent/spore-etcd").CombinedOutput()
		require.NoError(t, err, "%s", out)
		t.Setenv(endpointProgram, program)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root may lay folders over those below /run")
	}
	netnstest.Run(t, func(t *testing.T) {
		lo, err := netlink.LinkByName("lo")
		require.NoError(t, err)
		require.NoError(t, netlink.LinkSetUp(lo))
		netnstest.Veth(t, "host0", "52:54:00:77:00:15", "far0", "02:00:00:00:00:02")
		netnstest.Address(t, "host0", "10.77.0.21/24")

		configs := t.TempDir()
		require.NoError(t, os.CopyFS(configs, os.DirFS("testdata/kubernetes")))
		file := filepath.Join(configs, "cluster.yaml")
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		text = bytes.Replace(text, []byte("\n  podCIDRs:"), []byte("\n  controlPlaneEndpoint: 10.77.0.100\n  podCIDRs:"), 1)
		require.NoError(t, os.WriteFile(file, text, 0o644))
		c, err := kubecluster.Load(configs)
		require.NoError(t, err)
		n, err := c.Node("control-plane")
		require.NoError(t, err)
		programs := kubernetesPrograms(t)
		master, err := c.Prepare(n, t.TempDir(), "../../units", func(name string) string { return filepath.Join(programs, name) })
		require.NoError(t, err)
		t.Cleanup(master.Stop)
		require.NoError(t, master.Start(context.Background(), "etcd", "kube-apiserver"))
		forward(t, "127.0.0.1:2379", strings.TrimPrefix(master.Etcd, "https://"))
		stopAPI := forward(t, "127.0.0.1:6443", strings.TrimPrefix(master.Server, "https://"))

		run := t.TempDir()
		secrets := t.TempDir()
		put := func(path string, data []byte) {
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(t, os.WriteFile(path, data, 0o644))
		}
		config, report := cluster.LoadDir(configs)
		require.NoError(t, report.Err())
		part, err := cluster.Compile(config)
		require.NoError(t, err)
		in := func(path string) string { return filepath.Join(run, strings.TrimPrefix(path, "/run")) }
		for name, data := range part {
			put(in(filepath.Join(bootinfo.ClusterDir, name)), data)
		}
		for name, data := range c.Tree.Public().Files() {
			put(in(filepath.Join(bootinfo.ClusterDir, name)), data)
		}
		var id detect.Identity
		id.Node = n.Name
		data, err := json.Marshal(id)
		require.NoError(t, err)
		put(in(paths.Identity), data)
		for _, ref := range []string{"etcd-agent-certificate", "etcd-agent-key"} {
			data, err := c.Secret(n.Name, "control-plane-endpoint", ref)
			require.NoError(t, err)
			put(filepath.Join(secrets, "secret_"+ref), data)
		}
		socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"})
		require.NoError(t, err)
		defer socket.Close()

		var log bytes.Buffer
		cmd := exec.Command("unshare", "--mount", "sh", "-c", `mount --bind "$1" /run && exec "$2" endpoint`, "sh", run, os.Getenv(endpointProgram))
		cmd.Env = append(os.Environ(), "CREDENTIALS_DIRECTORY="+secrets, "NOTIFY_SOCKET="+socket.LocalAddr().String())
		cmd.Stdout, cmd.Stderr = &log, &log
		require.NoError(t, cmd.Start())
		defer end(cmd)
		vip := netip.MustParseAddr("10.77.0.100")
		has := func() bool {
			list, err := netlink.AddrList(nil, netlink.FAMILY_V4)
			require.NoError(t, err)
			for _, a := range list {
				if a.IP.Equal(vip.AsSlice()) {
					return true
				}
			}
			return false
		}
		notified := map[string]bool{}
		listen := func(until string) {
			buf := make([]byte, 4096)
			require.NoError(t, socket.SetReadDeadline(time.Now().Add(time.Minute)))
			for !notified[until] {
				k, err := socket.Read(buf)
				require.NoError(t, err, "waiting for %q; it said\n%v\n%s", until, notified, log.String())
				for line := range strings.Lines(string(buf[:k])) {
					notified[strings.TrimSpace(line)] = true
				}
			}
		}
		listen("STATUS=this master has 10.77.0.100")
		require.True(t, notified["READY=1"])
		require.True(t, notified["WATCHDOG_USEC=48000000"])
		require.True(t, notified["WATCHDOG=1"])
		require.True(t, has())
		state, err := holder.Read(in(holder.File))
		require.NoError(t, err)
		require.Equal(t, holder.State{Address: "10.77.0.100", Holder: "master-01", Here: true}, state.State)

		// Without its API server it does not keep it.
		stopAPI()
		master.StopOne("kube-apiserver")
		listen("STATUS=does not try for 10.77.0.100: its own API server is not ready: it does not run")
		require.False(t, has())

		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, cmd.Wait(), "%s", log.String())
		listen("STOPPING=1")
		t.Logf("%s", log.String())
	})
}

// forward has a port of a node lead to where a test has the program.
func forward(t *testing.T, from, to string) (stop func()) {
	l, err := net.Listen("tcp", from)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return // closed
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			go func() { _, _ = io.Copy(out, in); out.Close() }()
			go func() { _, _ = io.Copy(in, out); in.Close() }()
		}
	}()
	return func() { l.Close() }
}
