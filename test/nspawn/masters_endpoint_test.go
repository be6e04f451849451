//go:build e2e

package nspawn

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/bpf"

	"spore/pki"
	"spore/services/kubernetes"
	"spore/services/kubernetes/vip"
	"spore/services/kubernetes/vip/address"
	"spore/services/kubernetes/vip/holder"
)

// endpointUnit holds the virtual address.
const endpointUnit = "control-plane-endpoint.service"

// endpointLimit bounds a move on a busy machine.
const endpointLimit = 90 * time.Second

// endpointLab is three masters with a virtual address. Their API servers are real; what runs pods is not there.
type endpointLab struct {
	*Lab
	vip    string
	config *tls.Config
	pcap   string
	// limit bounds what is waited for.
	limit time.Duration
}

func newEndpointLab(t *testing.T, configs string, image bool) *endpointLab {
	l := New(t, Options{Source: "../..", Configs: configs, Image: image, Masked: []string{
		"containerd.service", "kubernetes-images.service", "kubelet.service", "kube-proxy.service", "calico-node.service",
		"calico-controllers.service", "cluster-dns.service", "kube-controller-manager.service", "kube-scheduler.service",
		"kubernetes-bootstrap.service", "kubernetes-api.service", // They wait for the controllers.
	}})
	admin, err := l.Keys.Admin(&l.Cluster, "lab", time.Hour, pki.Options{Now: time.Now(), Random: rand.Reader})
	require.NoError(t, err)
	pair, err := tls.X509KeyPair([]byte(admin.Certificate), []byte(admin.Key))
	require.NoError(t, err)
	e := &endpointLab{l, l.Cluster.Network.ControlPlaneEndpoint, &tls.Config{RootCAs: l.Authority("kubernetes-server"), Certificates: []tls.Certificate{pair}}, filepath.Join(t.TempDir(), "wire.pcap"), endpointLimit}
	e.record()
	return e
}

// record writes what the wire has of the virtual address into a file of pcap: all of ARP, and packets that come from the address.
// Answers to others than the test are among them, which the bridge gives to whoever listens to everything.
func (e *endpointLab) record() {
	f, err := os.Create(e.pcap)
	require.NoError(e.t, err)
	w := pcapgo.NewWriter(f)
	require.NoError(e.t, w.WriteFileHeader(65536, layers.LinkTypeEthernet))
	h, err := pcapgo.NewEthernetHandle(bridge)
	require.NoError(e.t, err)
	// In the kernel, since what etcd and the API servers say would fill the buffer of a test that gets no processor.
	filter, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: 12, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(layers.EthernetTypeARP), SkipTrue: 3},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(layers.EthernetTypeIPv4), SkipTrue: 3},
		bpf.LoadAbsolute{Off: 14 + 12, Size: 4}, // the source
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: binary.BigEndian.Uint32(net.ParseIP(e.vip).To4()), SkipTrue: 1},
		bpf.RetConstant{Val: 64}, // the headers
		bpf.RetConstant{},
	})
	require.NoError(e.t, err)
	require.NoError(e.t, h.SetBPF(filter))
	require.NoError(e.t, h.SetPromiscuous(true))
	go func() {
		for {
			data, info, err := h.ReadPacketData()
			if err != nil || w.WritePacket(info, data) != nil {
				return // closed with the network at the end
			}
		}
	}()
}

// heard is a frame by which somebody showed that it has the virtual address.
type heard struct {
	at  time.Time
	mac string
	how string
}

// How somebody shows that it has the virtual address.
const (
	announces = "announces it"
	answers   = "answers for it"
	sends     = "sends from it"
)

// frames are what the file of pcap has of those who have the virtual address.
func (e *endpointLab) frames() []heard {
	e.t.Helper()
	f, err := os.Open(e.pcap)
	require.NoError(e.t, err)
	defer f.Close()
	r, err := pcapgo.NewReader(f)
	require.NoError(e.t, err)
	var out []heard
	for {
		data, info, err := r.ReadPacketData()
		if err != nil {
			return out // its end, or a packet that is being written
		}
		p := gopacket.NewPacket(data, layers.LayerTypeEthernet, gopacket.Lazy)
		eth, ok := p.Layer(layers.LayerTypeEthernet).(*layers.Ethernet)
		if !ok {
			continue
		}
		h := heard{info.Timestamp, eth.SrcMAC.String(), sends}
		if a, ok := p.Layer(layers.LayerTypeARP).(*layers.ARP); ok {
			if net.IP(a.SourceProtAddress).String() != e.vip {
				continue
			}
			h.mac, h.how = net.HardwareAddr(a.SourceHwAddress).String(), answers
			if net.IP(a.DstProtAddress).String() == e.vip {
				h.how = announces
			}
		}
		out = append(out, h)
	}
}

// announcements are those of the virtual address.
func (e *endpointLab) announcements() []heard {
	e.t.Helper()
	return slices.DeleteFunc(e.frames(), func(h heard) bool { return h.how != announces })
}

// announcedBy is how long after a time a master announced the address.
func (e *endpointLab) announcedBy(n *Node, since time.Time) time.Duration {
	e.t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		for _, a := range e.announcements() {
			if a.at.After(since) && a.mac == n.Facts.MACs[0] {
				return a.at.Sub(since)
			}
		}
	}
	require.FailNow(e.t, "the wire has no announcement", "by %s", n.Facts.Name)
	return 0
}

// version asks an API server which it is, by any way to it.
func (e *endpointLab) version(ctx context.Context, address, name string, dial func(ctx context.Context, network, address string) (net.Conn, error)) error {
	config := e.config.Clone()
	config.ServerName = name
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: config, DialContext: dial}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/api/v1/namespaces/default", nil)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, data)
	}
	return err
}

// through asks the API at the virtual address, as an operator with spore's kubeconfig does.
func (e *endpointLab) through() error {
	return e.version(context.Background(), net.JoinHostPort(e.vip, "6443"), "", (&net.Dialer{Timeout: 250 * time.Millisecond}).DialContext)
}

// balanced asks the API at a node's own balancer.
func (e *endpointLab) balanced(n *Node) error {
	return e.version(context.Background(), "127.0.0.1:6444", "", n.Dial)
}

// within tries until there is no error any more, and returns how long that took.
func (e *endpointLab) within(what string, try func() error) time.Duration {
	e.t.Helper()
	began := time.Now()
	for {
		err := try()
		if err == nil {
			return time.Since(began)
		}
		if time.Since(began) > e.limit {
			for _, n := range e.Nodes() {
				if n.Up() {
					out, _ := n.Exec("journalctl", "--no-pager", "--output=short-monotonic", "--lines=60", "--unit=control-plane-endpoint", "--unit=etcd", "--unit=kube-apiserver")
					e.t.Logf("%s:\n%s", n.Facts.Name, out)
				}
			}
			require.NoError(e.t, err, "%s, after %s", what, e.limit)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// ip runs the host's ip(8) in the network of a node, whose image has none.
func (e *endpointLab) ip(n *Node, args ...string) string {
	e.t.Helper()
	leader, err := n.leader()
	require.NoError(e.t, err)
	out, err := exec.Command("nsenter", append([]string{"-t", leader, "-n", "--", "ip"}, args...)...).CombinedOutput()
	require.NoError(e.t, err, "%s", out)
	return string(out)
}

// has tells whether the kernel of a node has the virtual address.
func (e *endpointLab) has(n *Node) bool {
	return strings.Contains(e.ip(n, "-o", "-4", "address", "show", "to", e.vip+"/32"), e.vip+"/32")
}

// holder is the one master whose kernel has the address.
func (e *endpointLab) holder() *Node {
	e.t.Helper()
	var out []*Node
	for _, n := range e.Nodes() {
		if n.Up() && e.has(n) {
			out = append(out, n)
		}
	}
	require.Len(e.t, out, 1, "masters that have the address")
	return out[0]
}

// moved waits until the API answers at the virtual address and another master than the former has it; it returns that master,
// and after how long there was an answer and an announcement.
func (e *endpointLab) moved(from *Node, began time.Time) (*Node, string) {
	e.t.Helper()
	var to *Node
	e.within("another master has the address", func() error {
		for _, n := range e.Nodes() {
			if n != from && n.Up() && e.has(n) {
				to = n
				return nil
			}
		}
		return fmt.Errorf("no master but %s has it", from.Facts.Name)
	})
	e.within("the API answers at the virtual address", e.through)
	answered := time.Since(began)
	return to, fmt.Sprintf("%s announced it after %.2f s, the API answered there after %.2f s", to.Facts.Name, e.announcedBy(to, began).Seconds(), answered.Seconds())
}

// gap watches the virtual address in the background: the longest time without an answer.
func (e *endpointLab) gap() (stop func() time.Duration) {
	done := make(chan struct{})
	var group sync.WaitGroup
	var longest time.Duration
	group.Go(func() {
		last := time.Now()
		for {
			err := e.through()
			if now := time.Now(); err == nil {
				longest = max(longest, now.Sub(last))
				last = now
			}
			select {
			case <-done:
				longest = max(longest, time.Since(last)) // The answer that the test has seen may not have come here yet.
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	return func() time.Duration { close(done); group.Wait(); return longest }
}

func TestMastersShareAVirtualAddress(t *testing.T) {
	e := newEndpointLab(t, "testdata/endpoint", false)
	began := time.Now()
	e.StartAll()
	e.within("the API answers at the virtual address", e.through)
	t.Logf("three masters of nothing: the API answers at the virtual address %.1f s after they were switched on", time.Since(began).Seconds())
	times := vip.Times(kubernetes.Of(e.Cluster.Services).Slow(), address.Lateness)

	e.Step("one has it and says so", func(t *testing.T) {
		h := e.holder()
		require.Positive(t, e.announcedBy(h, time.Time{}))
		t.Logf("# ip address show %s\n%s", h.card(), e.ip(h, "address", "show", "dev", h.card()))
		for _, n := range e.Nodes() {
			var s holder.State
			require.NoError(t, json.Unmarshal([]byte(n.MustExec("cat", holder.File)), &s))
			require.Equal(t, e.vip, s.Address)
			require.Equal(t, h.Facts.Name, s.Holder)
			require.Equal(t, n == h, s.Here)
			t.Logf("%s: %s", n.Facts.Name, n.MustExec("systemctl", "show", "--property=StatusText", endpointUnit))
		}
	})
	e.Step("it is nobody's own address", func(t *testing.T) {
		h := e.holder()
		var line struct{ Addresses []string }
		require.NoError(t, json.Unmarshal([]byte(h.MustExec("spore-agent", "status", "--json")), &line))
		require.Equal(t, []string{h.IP()}, line.Addresses)
		require.NotContains(t, h.MustExec("spore-agent", "etcd", "show", "--json"), e.vip)
		require.NotContains(t, h.MustExec("cat", "/run/etcd/config.json"), e.vip)
		require.Contains(t, h.commandLine("kube-apiserver.service"), "--advertise-address="+h.IP())
		require.NotContains(t, h.MustExec("cat", "/etc/hosts"), e.vip)
		require.Contains(t, e.ip(h, "route", "get", "10.83.0.1"), "src "+h.IP())
		require.Contains(t, e.ip(h, "route", "get", "192.0.2.1"), "src "+h.IP())
		// No kubelet runs in the container. With this address one would.
		require.Contains(t, h.MustExec("cat", "/etc/cluster-config/environment/kubelet.env"), "KUBELET_NODE_IP="+h.IP())
	})
	e.Step("networkd neither takes it away for good nor keeps it", func(t *testing.T) {
		h := e.holder()
		for _, args := range [][]string{{"systemctl", "reload", "systemd-networkd"}, {"systemctl", "restart", "systemd-networkd"}} {
			began := time.Now()
			h.MustExec(args...)
			there := e.has(h)
			e.within("the address is there", func() error {
				if !e.has(h) {
					return fmt.Errorf("it is not")
				}
				return nil
			})
			e.within("the API answers at the virtual address", e.through)
			t.Logf("%s: kept %t, there and answering after %.2f s", strings.Join(args, " "), there, time.Since(began).Seconds())
			require.Equal(t, h, e.holder())
		}
		// Nobody renews it: networkd does not give it a longer life.
		h.MustExec("systemctl", "kill", "--kill-whom=main", "--signal=STOP", endpointUnit)
		h.MustExec("systemctl", "restart", "systemd-networkd")
		time.Sleep(times.Lease)
		require.False(t, e.has(h))
		h.MustExec("systemctl", "kill", "--kill-whom=main", "--signal=CONT", endpointUnit)
		e.within("the API answers at the virtual address", e.through)
	})
	e.Step("a frozen agent's address is another's in time", func(t *testing.T) {
		h := e.holder()
		stop := e.gap()
		began := time.Now()
		h.MustExec("systemctl", "kill", "--kill-whom=main", "--signal=STOP", endpointUnit)
		for e.has(h) {
			require.Less(t, time.Since(began), times.Lease, "the bound of docs/endpoint.md")
			time.Sleep(10 * time.Millisecond)
		}
		gone := time.Since(began)
		_, how := e.moved(h, began)
		t.Logf("frozen: gone from the kernel of %s after %.2f s; %s; nobody answered for %.2f s", h.Facts.Name, gone.Seconds(), how, stop().Seconds())
		h.MustExec("systemctl", "kill", "--kill-whom=main", "--signal=CONT", endpointUnit)
		time.Sleep(2 * times.Every)
		require.NotEqual(t, h, e.holder())
	})
	e.Step("it leaves a master whose API server is stopped", func(t *testing.T) {
		h := e.holder()
		stop := e.gap()
		began := time.Now()
		h.MustExec("systemctl", "stop", "--no-block", "kube-apiserver")
		_, how := e.moved(h, began)
		t.Logf("API server stopped: %s; nobody answered for %.2f s", how, stop().Seconds())
		h.MustExec("systemctl", "start", "kube-apiserver")
	})
	e.Step("it leaves a master that is switched off in order before its API does", func(t *testing.T) {
		h := e.holder()
		stop := e.gap()
		began := time.Now()
		h.Stop()
		_, how := e.moved(h, began)
		t.Logf("switched off in order: %s; nobody answered for %.2f s", how, stop().Seconds())
		h.Start()
		h.Running()
	})
	e.Step("it leaves a master that loses its power", func(t *testing.T) {
		h := e.holder()
		stop := e.gap()
		began := time.Now()
		h.PowerLoss()
		other := e.Nodes()[0]
		if other == h {
			other = e.Nodes()[1]
		}
		balanced := e.within("the API answers at a node's own balancer", func() error { return e.balanced(other) })
		_, how := e.moved(h, began)
		t.Logf("power lost: %s; nobody answered for %.2f s; at the own balancer of %s it answered after %.2f s", how, stop().Seconds(), other.Facts.Name, balanced.Seconds())
		h.Start()
		h.Running()
	})
	e.Step("balancers need no virtual address", func(t *testing.T) {
		for _, n := range e.Nodes() {
			n.MustExec("systemctl", "stop", endpointUnit)
		}
		for _, n := range e.Nodes() {
			require.False(t, e.has(n))
			e.within("the API answers at a node's own balancer", func() error { return e.balanced(n) })
		}
		err := e.through()
		require.Error(t, err)
		require.Regexp(t, "i/o timeout|no route to host", err.Error(), "nobody has the address, and nobody refuses there")
		for _, n := range e.Nodes() {
			n.MustExec("systemctl", "start", endpointUnit)
		}
		e.within("the API answers at the virtual address", e.through)
	})
	e.Step("the wire tells the same", func(t *testing.T) {
		names := map[string]string{}
		for _, n := range e.Nodes() {
			names[n.Facts.MACs[0]] = n.Facts.Name
		}
		last, moves := "", 0
		for _, a := range e.announcements() {
			require.Contains(t, names, a.mac)
			if a.mac != last {
				t.Logf("  %s  %s is-at %s (%s)", a.at.Format("15:04:05.000"), e.vip, a.mac, names[a.mac])
				moves++
			}
			last = a.mac
		}
		require.GreaterOrEqual(t, moves, 4)
	})
}
