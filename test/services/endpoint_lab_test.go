//go:build e2e

package services

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"spore/services/kubernetes/vip"
	"spore/services/kubernetes/vip/address"
	"spore/services/kubernetes/vip/announce"
	"spore/services/kubernetes/vip/holder"
	"spore/services/kubernetes/vip/lock"
	"spore/services/kubernetes/vip/ready"
	"spore/test/kubecluster"
)

const (
	endpointKey = "/spore/control-plane-endpoint"
	// endpointProcess has the settings of a process that is one master's agent.
	endpointProcess = "SPORE_TEST_ENDPOINT"
)

// endpoints are three masters, each with a network namespace of its own on a bridge, and etcd in it. The test sits on the bridge.
type endpoints struct {
	t       *testing.T
	vip     netip.Addr
	masters []*endpointMaster
	pcap    string
	capture *capture
}

// endpointMaster is a master: its network namespace, its etcd, the answer of its API server, and the process of its agent.
type endpointMaster struct {
	lab      *endpoints
	name     string
	ip       netip.Addr
	mac      string
	port     string
	ns       *os.File
	etcd     *exec.Cmd
	etcdArgs []string
	agent    *exec.Cmd
	notReady atomic.Bool
	mu       sync.Mutex
	said     []string
}

// settings are what the process of an agent is told.
type settings struct {
	Node, VIP, Own string
}

// TestEndpointAgent is no test but the agent of one master, as `spore-etcd endpoint` runs it but for keys and files.
func TestEndpointAgent(t *testing.T) {
	var s settings
	if os.Getenv(endpointProcess) == "" {
		t.Skip("elsewhere: the tests of the virtual address run it as a process")
	}
	require.NoError(t, json.Unmarshal([]byte(os.Getenv(endpointProcess)), &s))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://127.0.0.1:2379"}, DialTimeout: time.Second})
	require.NoError(t, err)
	defer client.Close()
	ip := netip.MustParseAddr(s.VIP)
	timing := vip.Times(1, address.Lateness)
	say := func(line string) { fmt.Println("agent:", line) }
	require.NoError(t, vip.Run(ctx, vip.Options{
		Address: s.VIP, Node: s.Node, Timing: timing, Say: say, State: func(st holder.State) { say(fmt.Sprintf("%+v", st)) }, Alive: func() {},
		Lock:  vip.Etcd(&lock.Lock{Client: client, Key: endpointKey, Owner: s.Node, Lifetime: timing.Lease}),
		Card:  &vip.Interface{Address: ip, Own: []netip.Addr{netip.MustParseAddr(s.Own)}, Send: announce.Send},
		Ready: ready.Plain("http://127.0.0.1:8080/readyz"),
	}))
}

// newEndpoints starts three masters that have no agents yet. It needs a network namespace of its own around it.
func newEndpoints(t *testing.T, subnet string) *endpoints {
	t.Helper()
	root := t.TempDir()
	require.NoError(t, kubecluster.Programs(context.Background(), "../..", root, "etcd"))
	prefix := netip.MustParsePrefix(subnet)
	at := func(last string) netip.Addr {
		text := strings.TrimSuffix(prefix.Masked().Addr().String(), "0") + last
		if prefix.Addr().Is6() {
			text = prefix.Masked().Addr().String() + last
		}
		return netip.MustParseAddr(text)
	}
	l := &endpoints{t: t, vip: at("100"), pcap: filepath.Join(t.TempDir(), "wire.pcap")}
	lo, err := netlink.LinkByName("lo")
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetUp(lo))
	br := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "lab"}}
	require.NoError(t, netlink.LinkAdd(br))
	l.address("lab", netip.PrefixFrom(at("2"), prefix.Bits()))
	var peers []string
	for i := 1; i <= 3; i++ {
		m := &endpointMaster{
			lab: l, name: fmt.Sprintf("master-0%d", i), ip: at(fmt.Sprint(10 + i)), mac: fmt.Sprintf("02:00:00:77:00:%02x", 10+i), port: fmt.Sprintf("port%d", i),
		}
		l.masters = append(l.masters, m)
		peers = append(peers, fmt.Sprintf("%s=http://%s", m.name, netip.AddrPortFrom(m.ip, 2380)))
		m.plugIn(br, prefix.Bits())
	}
	l.capture = record(t, "lab", l.pcap)
	for _, m := range l.masters {
		m.etcdArgs = []string{
			filepath.Join(root, "usr/bin/etcd"), "--name=" + m.name, "--data-dir=" + filepath.Join(root, m.name), "--log-level=error",
			"--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
			"--listen-peer-urls=http://" + netip.AddrPortFrom(m.ip, 2380).String(), "--initial-advertise-peer-urls=http://" + netip.AddrPortFrom(m.ip, 2380).String(),
			"--initial-cluster=" + strings.Join(peers, ","), "--initial-cluster-state=new",
		}
		m.startEtcd()
		m.serve()
	}
	for _, m := range l.masters {
		require.Eventually(t, func() bool { _, err := m.holder(); return err == nil }, 30*time.Second, 100*time.Millisecond, "etcd of %s", m.name)
	}
	return l
}

func (l *endpoints) address(card string, p netip.Prefix) {
	l.t.Helper()
	link, err := netlink.LinkByName(card)
	require.NoError(l.t, err)
	a, err := netlink.ParseAddr(p.String())
	require.NoError(l.t, err)
	a.Flags = unix.IFA_F_NODAD
	require.NoError(l.t, netlink.AddrAdd(link, a))
	require.NoError(l.t, netlink.LinkSetUp(link))
}

// in does something in the network namespace of the master.
func (m *endpointMaster) in(do func()) {
	m.lab.t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	require.NoError(m.lab.t, err)
	defer home.Close()
	require.NoError(m.lab.t, unix.Setns(int(m.ns.Fd()), unix.CLONE_NEWNET))
	defer func() { require.NoError(m.lab.t, unix.Setns(int(home.Fd()), unix.CLONE_NEWNET)) }()
	do()
}

// plugIn makes the network namespace with a card whose other end is on the bridge.
func (m *endpointMaster) plugIn(br netlink.Link, bits int) {
	t := m.lab.t
	t.Helper()
	made := make(chan error)
	go func() {
		// The thread is given up with its namespace.
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			m.ns, err = os.Open("/proc/thread-self/ns/net")
		}
		made <- err
	}()
	require.NoError(t, <-made)
	t.Cleanup(func() { m.ns.Close() })
	hw, err := net.ParseMAC(m.mac)
	require.NoError(t, err)
	require.NoError(t, netlink.LinkAdd(&netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: m.port, MasterIndex: br.Attrs().Index}, PeerName: "host0", PeerHardwareAddr: hw, PeerNamespace: netlink.NsFd(m.ns.Fd()),
	}))
	port, err := netlink.LinkByName(m.port)
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetUp(port))
	m.in(func() {
		lo, err := netlink.LinkByName("lo")
		require.NoError(t, err)
		require.NoError(t, netlink.LinkSetUp(lo))
		m.lab.address("host0", netip.PrefixFrom(m.ip, bits))
	})
}

// cable plugs the master's card into the bridge, or pulls it.
func (m *endpointMaster) cable(plugged bool) {
	link, err := netlink.LinkByName(m.port)
	require.NoError(m.lab.t, err)
	if plugged {
		require.NoError(m.lab.t, netlink.LinkSetUp(link))
	} else {
		require.NoError(m.lab.t, netlink.LinkSetDown(link))
	}
}

func (m *endpointMaster) run(out io.Writer, env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = out, out
	// No Pdeathsig: the thread that starts it may end before this process does. The end of the lab kills it.
	m.in(func() { require.NoError(m.lab.t, cmd.Start()) })
	m.lab.t.Cleanup(func() { end(cmd) })
	return cmd
}

// end ends a process, if it has not ended.
func end(cmd *exec.Cmd) {
	_ = cmd.Process.Kill() // an error means that it has ended
	_ = cmd.Wait()         // always "killed", or somebody waited already
}

func (m *endpointMaster) startEtcd() {
	m.etcd = m.run(os.Stderr, nil, m.etcdArgs[0], m.etcdArgs[1:]...)
}

// serve is what stands for the master's API server: it says whether it is ready, and who it is.
func (m *endpointMaster) serve() {
	var l net.Listener
	var err error
	m.in(func() { l, err = net.Listen("tcp", ":8080") })
	require.NoError(m.lab.t, err)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" && m.notReady.Load() {
			http.Error(w, "not ready", http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, m.name)
	})}
	go func() { _ = s.Serve(l) }()
	m.lab.t.Cleanup(func() { s.Close() })
}

// startAgent starts the process of the agent.
func (m *endpointMaster) startAgent() {
	t := m.lab.t
	t.Helper()
	config, err := json.Marshal(settings{m.name, m.lab.vip.String(), m.ip.String()})
	require.NoError(t, err)
	out, in, err := os.Pipe()
	require.NoError(t, err)
	m.agent = m.run(in, []string{endpointProcess + "=" + string(config)}, os.Args[0], "-test.run=^TestEndpointAgent$", "-test.v")
	in.Close()
	go func() {
		defer out.Close()
		for sc := bufio.NewScanner(out); sc.Scan(); {
			if strings.HasPrefix(sc.Text(), "agent: ") {
				m.mu.Lock()
				m.said = append(m.said, time.Now().Format("15:04:05.000 ")+sc.Text())
				m.mu.Unlock()
			}
		}
	}()
}

// lines are what the agent has said.
func (m *endpointMaster) lines() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.name + ":\n" + strings.Join(m.said, "\n")
}

// has tells how the kernel of the master has the virtual address.
func (m *endpointMaster) has() (netlink.Addr, bool) {
	var list []netlink.Addr
	m.in(func() {
		var err error
		list, err = netlink.AddrList(nil, netlink.FAMILY_ALL)
		require.NoError(m.lab.t, err)
	})
	for _, a := range list {
		if a.IP.Equal(m.lab.vip.AsSlice()) {
			return a, true
		}
	}
	return netlink.Addr{}, false
}

// dial connects from the master's network namespace.
func (m *endpointMaster) dial() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
		var conn net.Conn
		var err error
		m.in(func() { conn, err = net.DialTimeout("tcp", "127.0.0.1:2379", time.Second) })
		return conn, err
	})}
}

// etcdClient is a client of the master's etcd.
func (m *endpointMaster) etcdClient() *clientv3.Client {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://127.0.0.1:2379"}, DialTimeout: time.Second, DialOptions: m.dial()})
	require.NoError(m.lab.t, err)
	return c
}

// holder is who has the lock, as the master's etcd knows.
func (m *endpointMaster) holder() (string, error) {
	c := m.etcdClient()
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	s, err := (&lock.Lock{Client: c, Key: endpointKey}).Look(ctx)
	return s.Holder, err
}

// leaseLeft is how long the lock's lease still lasts, as etcd says it in seconds; 0 is that there is none.
func (m *endpointMaster) leaseLeft() int64 {
	c := m.etcdClient()
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	r, err := c.Get(ctx, endpointKey)
	require.NoError(m.lab.t, err)
	if len(r.Kvs) == 0 {
		return 0
	}
	left, err := c.TimeToLive(ctx, clientv3.LeaseID(r.Kvs[0].Lease))
	require.NoError(m.lab.t, err)
	return max(left.TTL, 0)
}

// holders are the names of the masters whose kernels have the address.
func (l *endpoints) holders() (names []string) {
	for _, m := range l.masters {
		if _, ok := m.has(); ok {
			names = append(names, m.name)
		}
	}
	return names
}

// holder is the one master whose kernel has the address.
func (l *endpoints) holder() *endpointMaster {
	l.t.Helper()
	names := l.holders()
	require.Len(l.t, names, 1, "masters that have the address")
	for _, m := range l.masters {
		if m.name == names[0] {
			return m
		}
	}
	return nil
}

// answer is who answers at the virtual address now.
func (l *endpoints) answer() string {
	client := &http.Client{Timeout: 500 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get("http://" + netip.AddrPortFrom(l.vip, 8080).String())
	if err != nil {
		return ""
	}
	defer r.Body.Close()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return ""
	}
	return string(data)
}

// settled waits until one master of those that are allowed has the address and answers there, and returns it.
func (l *endpoints) settled(within time.Duration, allowed ...*endpointMaster) *endpointMaster {
	l.t.Helper()
	deadline := time.Now().Add(within)
	for {
		who := l.answer()
		for _, m := range allowed {
			if m.name == who {
				return m
			}
		}
		if time.Now().After(deadline) {
			l.logs()
			require.FailNow(l.t, "nobody who may answers at the virtual address", "%q does, within %s", who, within)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// but are the other masters.
func (l *endpoints) but(not *endpointMaster) []*endpointMaster {
	var out []*endpointMaster
	for _, m := range l.masters {
		if m != not {
			out = append(out, m)
		}
	}
	return out
}

func (l *endpoints) logs() {
	for _, m := range l.masters {
		l.t.Log(m.lines())
	}
}

// gone waits until the kernel of the master does not have the address any more and returns how long that took.
func (m *endpointMaster) gone(since time.Time, within time.Duration) time.Duration {
	m.lab.t.Helper()
	for {
		if _, ok := m.has(); !ok {
			return time.Since(since)
		}
		if time.Since(since) > within {
			m.lab.logs()
			require.FailNow(m.lab.t, m.name+" still has the address", "after %s", within)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
