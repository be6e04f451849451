//go:build integration

// Package payloads compiles what payloads/ pins and runs every program under every name that it has in the image.
package payloads

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"spore/builder/payload"
	"spore/builder/store"
)

const root = "../../payloads"

// image is a folder with the files of all payloads under the paths that they have in an image.
type image struct {
	dir      string
	programs []payload.Program
}

// build compiles the payloads, or takes them from the user's cache as a build of an image does.
func build(t *testing.T) image {
	t.Helper()
	b := image{dir: t.TempDir(), programs: compile(t)}
	for _, p := range b.programs {
		data, err := os.ReadFile(p.Path)
		require.NoError(t, err)
		for _, path := range append([]string{p.Target}, p.Links...) {
			require.NoError(t, os.MkdirAll(filepath.Dir(b.path(path)), 0o755))
			require.NoFileExists(t, b.path(path), "two programs are %s", path)
			if path == p.Target {
				require.NoError(t, os.WriteFile(b.path(path), data, os.FileMode(p.Mode)))
			} else {
				require.NoError(t, os.Symlink(b.path(p.Target), b.path(path)))
			}
		}
	}
	return b
}

func compile(t *testing.T) []payload.Program {
	t.Helper()
	st, err := store.Open(filepath.Join(userCache(t), "spore"))
	require.NoError(t, err)
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	var all []payload.Program
	for _, e := range entries {
		list, err := payload.Build(context.Background(), st, filepath.Join(root, e.Name()), payload.Options{Env: os.Environ()})
		require.NoError(t, err)
		all = append(all, list...)
	}
	return all
}

func userCache(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	return cache
}

func (b image) path(inImage string) string { return filepath.Join(b.dir, inImage) }

// version is that of the payload which brings a path, without the v before it.
func (b image) version(t *testing.T, inImage string) string {
	t.Helper()
	for _, p := range b.programs {
		if p.Target == inImage || slices.Contains(p.Links, inImage) {
			return strings.TrimPrefix(p.Version, "v")
		}
	}
	require.Fail(t, "no payload brings "+inImage)
	return ""
}

// run runs a program to its end and returns what it prints.
func (b image) run(t *testing.T, env []string, inImage string, args ...string) string {
	t.Helper()
	return b.feed(t, "", env, inImage, args...)
}

// feed is run with a text on standard input.
func (b image) feed(t *testing.T, input string, env []string, inImage string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.path(inImage), args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %s: %s", inImage, strings.Join(args, " "), out)
	return string(out)
}

func TestThePayloads(t *testing.T) {
	b := build(t)
	for name, test := range map[string]func(*testing.T, image){
		"every program runs and knows its version":        everyProgramRuns,
		"unchanged pins cost nothing":                     unchangedPins,
		"programs are what their sums say":                programsArePinned,
		"what is imported is what was compiled":           imported,
		"etcd keeps what it is given":                     etcd,
		"containerd reads its own defaults":               containerd,
		"calico prints the definitions of its objects":    calicoDefinitions,
		"calico refuses what it does not know":            calicoRefuses,
		"kafka keeps what it is given":                    kafka,
		"kafka says in one line why it ends":              kafkaComplains,
		"pause ends when it is told, and reaps till then": pause,
		"sizes": sizes,
	} {
		t.Run(name, func(t *testing.T) { test(t, b) })
	}
}

// everyProgramRuns holds each path against the version that the payload's pins name.
func everyProgramRuns(t *testing.T, b image) {
	plugin := []string{"CNI_COMMAND=VERSION"}
	// Two are run only by their links' names, and three say no version and are in tests of their own.
	ran := map[string]bool{"/usr/bin/kube": true, "/usr/share/kafka/kafka-tool": true, "/pause": true, "/usr/bin/kafka-cluster": true, "/usr/bin/spore-rbd": true}
	for _, tc := range []struct {
		path string
		env  []string
		args []string
		want string // %s stands for the payload's version
	}{
		{"/usr/bin/kube-apiserver", nil, []string{"--version"}, "Kubernetes v%s"},
		{"/usr/bin/kube-controller-manager", nil, []string{"--version"}, "Kubernetes v%s"},
		{"/usr/bin/kube-scheduler", nil, []string{"--version"}, "Kubernetes v%s"},
		{"/usr/bin/kube-proxy", nil, []string{"--version"}, "Kubernetes v%s"},
		{"/usr/bin/kubelet", nil, []string{"--version"}, "Kubernetes v%s"},
		{"/usr/bin/kubectl", nil, []string{"version", "--client"}, "Client Version: v%s"},
		{"/usr/bin/etcd", nil, []string{"--version"}, "etcd Version: %s"},
		{"/usr/bin/etcdctl", nil, []string{"version"}, "etcdctl version: %s"},
		{"/usr/bin/etcdutl", nil, []string{"version"}, "etcdutl version: %s"},
		{"/usr/bin/containerd", nil, []string{"--version"}, " v%s"},
		{"/usr/bin/ctr", nil, []string{"--version"}, " v%s"},
		{"/usr/bin/containerd-shim-runc-v2", nil, []string{"-v"}, "v%s"},
		{"/usr/bin/crictl", nil, []string{"--version"}, "v%s"},
		{"/usr/bin/victoria-metrics", nil, []string{"-version"}, "victoria-metrics-v%s"},
		{"/usr/bin/vmalert", nil, []string{"-version"}, "vmalert-v%s"},
		{"/usr/bin/victoria-logs", nil, []string{"-version"}, "victoria-logs-v%s"},
		{"/usr/bin/coredns", nil, []string{"-version"}, "CoreDNS-%s"},
		{"/usr/bin/cluster-dns", nil, []string{"-version"}, "CoreDNS-%s"},
		{"/usr/lib/cni/loopback", plugin, nil, `"1.0.0"`},
		{"/usr/lib/cni/portmap", plugin, nil, `"1.0.0"`},
		{"/usr/lib/cni/bandwidth", plugin, nil, `"1.0.0"`},
		{"/usr/bin/calico", nil, []string{"version"}, "v%s"},
		{"/usr/bin/calico-node", nil, []string{"-v"}, "v%s"},
		{"/usr/lib/cni/calico", []string{"CNI_COMMAND="}, []string{"-v"}, "v%s"},
		{"/usr/lib/cni/calico", plugin, nil, `"1.0.0"`},
		{"/usr/lib/cni/calico-ipam", plugin, nil, `"1.0.0"`},
		{"/usr/bin/csi-provisioner", nil, []string{"--version"}, " v%s"},
		{"/usr/bin/kafka-acls", nil, []string{"--version"}, "%s"},
		{"/usr/bin/kafka-broker-api-versions", nil, []string{"--version"}, "%s"},
		{"/usr/bin/kafka-configs", nil, []string{"--version"}, "%s"},
		{"/usr/bin/kafka-console-consumer", nil, []string{"--version"}, "%s"},
		{"/usr/bin/kafka-console-producer", nil, []string{"--version"}, "%s"},
		{"/usr/bin/kafka-consumer-groups", nil, []string{"--version"}, "%s"},
		{"/usr/bin/kafka-delete-records", nil, []string{"--version"}, "%s"},
		{"/usr/bin/kafka-dump-log", nil, []string{"--version"}, "%s"},
		{"/usr/bin/kafka-features", nil, []string{"--help"}, "usage: kafka-features"},
		{"/usr/bin/kafka-get-offsets", nil, []string{"--version"}, "%s"},
		{"/usr/bin/kafka-leader-election", nil, []string{"--version"}, "%s"},
		{"/usr/bin/kafka-log-dirs", nil, []string{"--version"}, "%s"},
		{"/usr/bin/kafka-metadata-quorum", nil, []string{"--help"}, "usage: kafka-metadata-quorum"},
		{"/usr/bin/kafka-reassign-partitions", nil, []string{"--version"}, "%s"},
		{"/usr/bin/kafka-storage", nil, []string{"--help"}, "usage: kafka-storage"},
		{"/usr/bin/kafka-topics", nil, []string{"--version"}, "%s"},
		{"/usr/bin/kafka-transactions", nil, []string{"--version"}, "%s"},
	} {
		t.Run(strings.TrimPrefix(tc.path, "/")+" "+strings.Join(tc.args, " "), func(t *testing.T) {
			version := b.version(t, tc.path)
			require.NotEmpty(t, version)
			require.Contains(t, b.run(t, tc.env, tc.path, tc.args...), strings.ReplaceAll(tc.want, "%s", version))
		})
		ran[tc.path] = true
	}
	for _, p := range b.programs {
		if p.Mode&0o111 == 0 {
			continue // a jar, or settings
		}
		for _, path := range append([]string{p.Target}, p.Links...) {
			require.True(t, ran[path], "no row runs %s", path)
		}
	}
}

func unchangedPins(t *testing.T, b image) {
	before := cpu(t)
	for _, p := range compile(t) {
		require.True(t, p.Cached, p.Name)
	}
	used := cpu(t) - before
	t.Logf("%d programs: %v of CPU", len(b.programs), used)
	require.Less(t, used, 2*time.Second)
}

func etcd(t *testing.T, b image) {
	client, peer := "http://"+freeAddress(t), "http://"+freeAddress(t)
	data := filepath.Join(t.TempDir(), "data")
	stop := b.start(t, "/usr/bin/etcd", "--data-dir", data, "--name", "m",
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "m="+peer)
	env := []string{"ETCDCTL_ENDPOINTS=" + client}
	require.Eventually(t, func() bool {
		return exec.Command(b.path("/usr/bin/etcdctl"), "--endpoints", client, "endpoint", "health").Run() == nil
	}, 30*time.Second, 100*time.Millisecond, "etcd is not healthy")
	require.Equal(t, "OK\n", b.run(t, env, "/usr/bin/etcdctl", "put", "a", "b"))
	require.Equal(t, "a\nb\n", b.run(t, env, "/usr/bin/etcdctl", "get", "a"))
	snapshot := filepath.Join(t.TempDir(), "snapshot")
	b.run(t, env, "/usr/bin/etcdctl", "snapshot", "save", snapshot)
	stop()
	require.Contains(t, b.run(t, nil, "/usr/bin/etcdutl", "-w", "json", "snapshot", "status", snapshot), `"totalKey"`)
}

func containerd(t *testing.T, b image) {
	config := filepath.Join(t.TempDir(), "config.toml")
	require.NoError(t, os.WriteFile(config, []byte(b.run(t, nil, "/usr/bin/containerd", "config", "default")), 0o600))
	dump := b.run(t, nil, "/usr/bin/containerd", "--config", config, "config", "dump")
	require.Contains(t, dump, "io.containerd.cri.v1.runtime")
	for _, left := range []string{"btrfs", "zfs", "devmapper"} {
		require.NotContains(t, dump, left)
	}
}

// calicoDefinitions: our agent applies them, a line each, without a parser of YAML.
func calicoDefinitions(t *testing.T, b image) {
	lines := strings.Split(strings.TrimSpace(b.run(t, nil, "/usr/bin/calico", "crds")), "\n")
	names := map[string]bool{}
	for _, line := range lines {
		var crd struct {
			Kind     string
			Metadata struct{ Name string }
			Status   any
		}
		require.NoError(t, json.Unmarshal([]byte(line), &crd))
		require.Equal(t, "CustomResourceDefinition", crd.Kind)
		require.Nil(t, crd.Status, "the status is the API server's to write")
		names[crd.Metadata.Name] = true
	}
	require.Len(t, names, len(lines))
	for _, kind := range []string{"ippools", "felixconfigurations", "clusterinformations", "ipamblocks", "blockaffinities", "ipamhandles", "tiers"} {
		require.True(t, names[kind+".crd.projectcalico.org"], kind)
	}
}

func calicoRefuses(t *testing.T, b image) {
	for _, args := range [][]string{{"/usr/bin/calico", "no-such"}, {"/usr/bin/calico"}, {"/usr/bin/calico-node"}, {"/usr/bin/calico-node", "-no-such"}} {
		cmd := exec.Command(b.path(args[0]), args[1:]...)
		cmd.Env = append(os.Environ(), "CNI_COMMAND=")
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, "%v", args)
		require.Equal(t, 2, exit.ExitCode(), "%v: %s", args, out)
		require.NotEmpty(t, out)
	}
}

func pause(t *testing.T, b image) {
	// The child is the shell's, and with the shell it becomes pause's.
	cmd := exec.Command("sh", "-c", `sleep 1 & echo $!; exec "$0"`, b.path("/pause"))
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var child int
	_, err = fmt.Fscan(out, &child)
	require.NoError(t, err)
	status := fmt.Sprintf("/proc/%d/status", cmd.Process.Pid)
	// Until it listens SIGTERM would end it as it ends any program.
	require.Eventually(t, func() bool {
		data, err := os.ReadFile(status)
		return err == nil && catches(data, syscall.SIGTERM)
	}, 10*time.Second, 10*time.Millisecond, "pause does not catch SIGTERM")
	require.Eventually(t, func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/%d", child))
		return os.IsNotExist(err)
	}, 10*time.Second, 10*time.Millisecond, "pause leaves a zombie")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait())
}

// catches reads SigCgt of /proc/PID/status (proc(5)).
func catches(status []byte, s syscall.Signal) bool {
	for _, line := range bytes.Split(status, []byte("\n")) {
		var mask uint64
		if n, _ := fmt.Sscanf(string(line), "SigCgt:\t%x", &mask); n == 1 {
			return mask&(1<<(uint(s)-1)) != 0
		}
	}
	return false
}

// sizes prints the table of docs/measurements.md; the jars of a payload are one row.
func sizes(t *testing.T, b image) {
	jars := map[string]int64{}
	packedJars := map[string]counter{}
	for _, p := range b.programs {
		r, err := p.Content().Open()
		require.NoError(t, err)
		var packed counter
		w, err := zstd.NewWriter(&packed)
		require.NoError(t, err)
		_, err = io.Copy(w, r)
		require.NoError(t, err)
		require.NoError(t, r.Close())
		require.NoError(t, w.Close())
		if p.Artifact != nil {
			jars[p.Payload] += p.Size
			packedJars[p.Payload] += packed
			continue
		}
		t.Logf("| %s | %s | %.1f | %.1f |", p.Target, p.Version, float64(p.Size)/1e6, float64(packed)/1e6)
	}
	for name, size := range jars {
		t.Logf("| jars of %s | | %.1f | %.1f |", name, float64(size)/1e6, float64(packedJars[name])/1e6)
	}
}

type counter int64

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

// start runs a program until stop is called or the test ends.
func (b image) start(t *testing.T, inImage string, args ...string) (stop func()) {
	t.Helper()
	return start(t, b.path(inImage), args...)
}

// start does it for a program of this machine.
func start(t *testing.T, program string, args ...string) (stop func()) {
	t.Helper()
	var log bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		_ = cmd.Process.Signal(syscall.SIGTERM) // an error means that it has ended
		_ = cmd.Wait()                          // the test has seen what it wanted
		if t.Failed() {
			t.Log(log.String())
		}
	}
	t.Cleanup(stop)
	return stop
}

// freeAddress is one that nobody listened on a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// cpu is what this process and those that it has waited for have used.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var sum time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		require.NoError(t, syscall.Getrusage(who, &u))
		sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return sum
}
