package nodeapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/gopacket/pcapgo"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"spore/agent/api"
	"spore/agent/bootinfo"
	"spore/agent/detect"
	"spore/agent/netnstest"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/verbs"
	"spore/agent/verbs/list"
	"spore/builder/cmd/capture"
	"spore/builder/cmd/exit"
	"spore/builder/cmd/network"
	"spore/builder/cmd/top"
	"spore/cluster"
	"spore/cluster/identity"
	"spore/storage/atomicfile"
	"spore/wire/machine"
	protocol "spore/wire/nodeapi"
)

// looks has a node carry out the verbs that look, as this machine: with its processes and its network.
func (d *desk) looks(name string) {
	d.t.Helper()
	m := node.New("spore-agent", paths.Root(d.t.TempDir()))
	config, report := cluster.Check(os.DirFS(d.path("configs")), cluster.Options{})
	require.NoError(d.t, report.Err())
	files, err := cluster.Compile(config)
	require.NoError(d.t, err)
	for file, data := range files {
		path := filepath.Join(m.Root.At(bootinfo.ClusterDir), file)
		require.NoError(d.t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(d.t, os.WriteFile(path, data, 0o644))
	}
	id := detect.Identity{Result: identity.Result{Node: name, By: "mac", Phase: 1}}
	require.NoError(d.t, atomicfile.WriteJSON(m.Root.At(paths.Identity), id))
	for _, dir := range []string{"/proc", "/sys"} {
		require.NoError(d.t, os.Symlink(dir, m.Root.At(dir)))
	}
	shown := d.identity(name)
	var rows []api.Row
	for _, v := range protocol.Verbs() {
		rows = append(rows, api.Row{
			Method: http.MethodPost, Path: protocol.VerbsPath + v.Name, Who: v.Who, Body: protocol.MaxOrder, AtOnce: 8, Bound: time.Minute,
			Handle: func(w http.ResponseWriter, r *http.Request, caller protocol.Caller) {
				data, err := io.ReadAll(r.Body)
				var o protocol.Order
				if err == nil {
					o, err = protocol.ParseOrder(data)
				}
				if err != nil {
					http.Error(w, err.Error(), http.StatusBadRequest)
					return
				}
				call, _ := json.Marshal(verbs.Call{Verb: v.Name, Order: o, Caller: caller.Name, Roles: caller.Roles})
				in, stay := io.Pipe() // It ends when the caller has gone.
				stop := context.AfterFunc(r.Context(), func() { _ = stay.Close() })
				defer stop()
				go func() { _, _ = stay.Write(append(call, '\n')) }()
				_ = verbs.Serve(r.Context(), m, v.Kind, list.Handlers(), in, flushed{w})
			},
		})
	}
	server := &api.Server{Say: func(string) {}, Now: time.Now, Identity: func() (protocol.Identity, error) { return shown, nil }, Rows: rows}
	l := listen(d.t, d.at[name])
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, l) }()
	d.t.Cleanup(func() { cancel(); require.NoError(d.t, <-done) })
}

// flushed sends each event at once.
type flushed struct{ http.ResponseWriter }

func (f flushed) Write(b []byte) (int, error) {
	n, err := f.ResponseWriter.Write(b)
	if err == nil {
		err = http.NewResponseController(f.ResponseWriter).Flush()
	}
	return n, err
}

// look runs a command that looks at edge-01; words stand behind the folder.
func (d *desk) look(ctx context.Context, command string, words ...string) (code int, out, errs string) {
	var stdout, stderr bytes.Buffer
	root := &cobra.Command{Use: "spore", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(capture.Command(), network.Command(), top.Command())
	args := append([]string{command, d.path("configs"), "--timeout", "5s"}, words...)
	for name, at := range d.at {
		args = append(args, "--address", name+"="+at)
	}
	root.SetArgs(args)
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	code = exit.Run(ctx, root)
	return code, stdout.String(), stderr.String()
}

func TestANodeIsLookedAt(t *testing.T) {
	t.Parallel()
	netnstest.Run(t, func(t *testing.T) {
		lo, err := netlink.LinkByName("lo")
		require.NoError(t, err)
		require.NoError(t, netlink.LinkSetUp(lo))
		d := newDesk(t)
		d.looks("edge-01")
		ctx := t.Context()

		code, out, errs := d.look(ctx, "top", "--node", "edge-01", "--once")
		require.Equal(t, exit.OK, code, errs)
		require.Contains(t, out, "edge-01  up ")
		require.Contains(t, out, "COMMAND")
		require.Contains(t, errs, "edge-01: looked 1 times at 1 seconds")
		code, out, errs = d.look(ctx, "top", "--node", "edge-01", "--once", "--json")
		require.Equal(t, exit.OK, code, errs)
		var all []struct{ Results []machine.Load }
		require.NoError(t, json.Unmarshal([]byte(out), &all))
		require.NotEmpty(t, all[0].Results[0].Processes)
		code, out, errs = d.look(ctx, "top", "--node", "edge-01", "--node", "kafka-01")
		require.Equal(t, exit.Failed, code)
		require.Regexp(t, `(?m)^edge-01 +\d+%`, out, errs)
		require.Regexp(t, `(?m)^kafka-01 +it does not answer`, out)
		require.Contains(t, errs, "kafka-01: ")

		code, out, errs = d.look(ctx, "net", "edge-01")
		require.Equal(t, exit.OK, code, errs)
		require.Regexp(t, `(?m)^lo +card .* up `, out)
		code, out, errs = d.look(ctx, "net", "edge-01", "ping", "127.0.0.1", "--count", "1")
		require.Equal(t, exit.OK, code, errs)
		require.Regexp(t, `^1  127\.0\.0\.1  \d+\.\d+ ms: 64 bytes\n$`, out)
		require.Contains(t, errs, "edge-01: 1 of 1 were answered")
		code, out, _ = d.look(ctx, "net", "edge-01", "tcp", d.at["kafka-01"], "--count", "1")
		require.Equal(t, exit.Failed, code)
		require.Contains(t, out, "connection refused")
		code, _, errs = d.look(ctx, "net", "edge-01", "ping", "a b")
		require.Equal(t, exit.Misuse, code)
		require.Contains(t, errs, "is not a name or an address")
	})
}

func TestACaptureIsWrittenAndCanBeInterrupted(t *testing.T) {
	t.Parallel()
	netnstest.Run(t, func(t *testing.T) {
		lo, err := netlink.LinkByName("lo")
		require.NoError(t, err)
		require.NoError(t, netlink.LinkSetUp(lo))
		d := newDesk(t)
		d.looks("edge-01")
		over := make(chan struct{})
		t.Cleanup(func() { close(over) })
		go func() { // Somebody speaks all the time.
			c, err := net.Dial("udp", "127.0.0.1:9999")
			if err != nil {
				return
			}
			defer c.Close()
			for {
				select {
				case <-over:
					return
				case <-time.After(5 * time.Millisecond):
					_, _ = c.Write([]byte("hello"))
				}
			}
		}()
		read := func(name string) (packets int) {
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			r, err := pcapgo.NewReader(bytes.NewReader(data))
			require.NoError(t, err)
			for {
				data, _, err := r.ReadPacketData()
				if err != nil {
					require.ErrorIs(t, err, io.EOF)
					return packets
				}
				require.Contains(t, string(data), "hello")
				packets++
			}
		}
		file := d.path("a.pcap")
		code, _, errs := d.look(t.Context(), "capture", "edge-01", "--interface", "lo", "--filter", "udp dst port 9999", "--packets", "20", "-o", file)
		require.Equal(t, exit.OK, code, errs)
		require.Contains(t, errs, "edge-01: captures on lo until 30 seconds, 20 packets")
		require.Contains(t, errs, "the kernel dropped 0; it ended because 20 packets were asked for")
		require.Equal(t, 20, read(file))
		code, _, errs = d.look(t.Context(), "capture", "edge-01", "--interface", "lo", "-o", file)
		require.Equal(t, exit.Misuse, code)
		require.Contains(t, errs, "is there already")

		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		file = d.path("b.pcap")
		code, _, errs = d.look(ctx, "capture", "edge-01", "--interface", "lo", "--filter", "udp dst port 9999", "--for", "10m", "-o", file)
		require.Equal(t, exit.OK, code, errs)
		require.Contains(t, errs, "interrupted: ")
		require.Greater(t, read(file), 20)

		code, _, errs = d.look(t.Context(), "capture", "edge-01", "--interface", "eth9", "-o", d.path("c.pcap"))
		require.Equal(t, exit.Failed, code)
		require.Contains(t, errs, "there is no interface eth9")
		require.NoFileExists(t, d.path("c.pcap"))
	})
}
