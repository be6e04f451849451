//go:build e2e

package services

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"spore/agent/render"
	dnsservice "spore/services/dns"
	"spore/services/rendering"
	"spore/test/client"
	"spore/test/kubecluster"
)

// coredns runs the program of payloads/ with the rendered configuration of edge-01 on loopback and returns its address,
// at which it serves when it tells systemd that it does.
func coredns(t *testing.T, change func(*rendering.Input), replace ...string) string {
	t.Helper()
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(t)))
	word, ended := startCoreDNS(t, addr, change, replace...)
	select {
	case w := <-word:
		require.Equal(t, "READY=1", w)
	case <-ended:
		require.Fail(t, "CoreDNS has ended")
	case <-time.After(10 * time.Second):
		require.Fail(t, "CoreDNS does not say that it is ready")
	}
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	require.NoError(t, c.Close())
	return addr
}

// startCoreDNS starts it at addr. What it tells systemd comes by word, and ended is closed at its end.
func startCoreDNS(t *testing.T, addr string, change func(*rendering.Input), replace ...string) (word <-chan string, ended <-chan struct{}) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, kubecluster.Programs(context.Background(), "../..", dir, "coredns"))
	program := filepath.Join(dir, "usr/bin/coredns")

	shared, node, hosts := example(t, "edge", "edge-01")
	in := rendering.Input{Cluster: shared, Node: node, Hosts: bytes.NewReader(hosts), Dir: dir, Addresses: []netip.Addr{netip.MustParseAddr("10.77.0.11")}}
	dnsservice.Of(in.Cluster.Services).Clients = []string{"127.0.0.1/32"} // the tests themselves
	if change != nil {
		change(&in)
	}
	files, err := render.Render("coredns", in)
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	corefile := files["Corefile"]
	text := strings.ReplaceAll(string(corefile.Data), ":53 {", ":"+port+" {")
	text = strings.ReplaceAll(text, "bind 10.77.0.11\n", "bind 127.0.0.1\n")
	text = strings.ReplaceAll(text, fmt.Sprintf("127.0.0.1:%d\n", dnsservice.PortMetrics), fmt.Sprintf("127.0.0.1:%d\n", freePort(t)))
	text = strings.NewReplacer(replace...).Replace(text)
	corefile.Data = []byte(text)
	files["Corefile"] = corefile
	require.NoError(t, render.Write(dir, files))

	var log bytes.Buffer
	cmd := exec.Command(program, "-conf", filepath.Join(dir, "Corefile"))
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	require.NoError(t, err)
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+notify.LocalAddr().String())
	require.NoError(t, cmd.Start())
	words, end := make(chan string, 1), make(chan struct{})
	go func() {
		buf := make([]byte, 4096)
		if n, err := notify.Read(buf); err == nil { // else the test has closed it
			words <- string(buf[:n])
		}
	}()
	go func() {
		_ = cmd.Wait() // "killed", or what the log says
		close(end)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // an error means that it has ended
		<-end
		notify.Close()
		if t.Failed() {
			t.Logf("%s\n%s", text, log.String())
		}
	})
	return words, end
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func TestCoreDNSIsNotReadyWhereItCannotListen(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	word, ended := startCoreDNS(t, taken.Addr().String(), nil)
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		require.Fail(t, "CoreDNS goes on without its port")
	}
	require.Empty(t, word)
}

func TestCoreDNSAnswersFromTheRenderedConfiguration(t *testing.T) {
	addr := coredns(t, func(in *rendering.Input) {
		dnsservice.Of(in.Cluster.Services).Forwarders = nil
		in.Cluster.Network.Nameservers = nil
	})
	for _, tt := range []struct {
		name, kind string
		want       client.Answer
	}{
		{"edge-01.plant.example", "A", client.Answer{Code: "NOERROR", Authoritative: true, Records: []string{"A 10.77.0.11"}}},
		{"MQTT-01.Plant.Example", "A", client.Answer{Code: "NOERROR", Authoritative: true, Records: []string{"A 10.77.0.12"}}},
		{"edge-01.plant.example", "AAAA", client.Answer{Code: "NOERROR", Authoritative: true}},
		{"mqtt.plant.example", "A", client.Answer{Code: "NOERROR", Authoritative: true, Records: []string{"A 10.77.0.11", "CNAME edge-01.plant.example."}}},
		{"mqtt-broker.plant.example", "A", client.Answer{Code: "NOERROR", Authoritative: true, Records: []string{"A 10.77.0.11", "A 10.77.0.12"}}},
		{"dns.plant.example", "A", client.Answer{Code: "NOERROR", Authoritative: true, Records: []string{"A 10.77.0.11", "A 10.77.0.13"}}},
		{"11.0.77.10.in-addr.arpa", "PTR", client.Answer{Code: "NOERROR", Authoritative: true, Records: []string{"PTR edge-01.plant.example."}}},
		{"12.0.77.10.in-addr.arpa", "PTR", client.Answer{Code: "NOERROR", Authoritative: true, Records: []string{"PTR mqtt-01.plant.example."}}},
		{"99.0.77.10.in-addr.arpa", "PTR", client.Answer{Code: "NXDOMAIN", Authoritative: true}},
		{"nobody.plant.example", "A", client.Answer{Code: "NXDOMAIN", Authoritative: true}},
		{"plant.example", "NS", client.Answer{Code: "NOERROR", Authoritative: true, Records: []string{"NS dns-01.plant.example.", "NS edge-01.plant.example."}}},
		{"example.com", "A", client.Answer{Code: "REFUSED"}},
	} {
		for _, network := range []string{"udp", "tcp"} {
			t.Run(network+" "+tt.name+" "+tt.kind, func(t *testing.T) {
				got, err := client.Ask(network, addr, tt.name, tt.kind)
				require.NoError(t, err)
				got.Records = lower(got.Records)
				require.Equal(t, tt.want, got)
			})
		}
	}
	t.Run("dig agrees", func(t *testing.T) {
		host, port, err := net.SplitHostPort(addr)
		require.NoError(t, err)
		out, err := exec.Command("dig", "+short", "-p", port, "@"+host, "-x", "10.77.0.11").CombinedOutput()
		require.NoError(t, err, "%s\nrun make deps", out)
		require.Equal(t, "edge-01.plant.example.\n", string(out))
	})
}

func lower(records []string) []string {
	var out []string
	for _, r := range records {
		kind, data, _ := strings.Cut(r, " ")
		out = append(out, kind+" "+strings.ToLower(data))
	}
	return out
}

func TestCoreDNSForwardsForeignNames(t *testing.T) {
	upstream, _ := resolver(t)

	// The upstream's port takes the place of the usual one.
	addr := coredns(t, func(in *rendering.Input) { dnsservice.Of(in.Cluster.Services).Forwarders = []string{"192.0.2.53"} },
		"192.0.2.53", upstream)
	got, err := client.Ask("udp", addr, "example.com", "A")
	require.NoError(t, err)
	require.Equal(t, client.Answer{Code: "NOERROR", Records: []string{"A 192.0.2.1"}}, got)
	got, err = client.Ask("udp", addr, "nobody.plant.example", "A")
	require.NoError(t, err)
	require.Equal(t, "NXDOMAIN", got.Code, "names of the cluster are never asked elsewhere")
}

// resolver answers every name with one address, and counts the questions.
func resolver(t *testing.T) (addr string, asked *atomic.Int32) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	asked = new(atomic.Int32)
	srv := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		asked.Add(1)
		r := new(dns.Msg).SetReply(q)
		rr, err := dns.NewRR(q.Question[0].Name + " 60 IN A 192.0.2.1")
		if err == nil {
			r.Answer = append(r.Answer, rr)
		}
		_ = w.WriteMsg(r) // the test sees no answer then
	})}
	go func() { _ = srv.ActivateAndServe() }() // ends with the test
	t.Cleanup(func() { _ = srv.Shutdown() })
	return conn.LocalAddr().String(), asked
}

func TestCoreDNSAnswersItsClientsAlone(t *testing.T) {
	upstream, asked := resolver(t)
	addr := coredns(t, func(in *rendering.Input) {
		in.Cluster.Network.NodeSubnets = []string{"127.0.1.0/24"}
		in.Cluster.Network.PodCIDRs = []string{"127.0.2.0/24"}
		dnsservice.Of(in.Cluster.Services).Clients = []string{"127.0.3.128/25"}
		dnsservice.Of(in.Cluster.Services).Forwarders = []string{"192.0.2.53"}
	}, "192.0.2.53", upstream)
	names := map[string]client.Answer{
		"edge-01.plant.example":    {Code: "NOERROR", Authoritative: true, Records: []string{"A 10.77.0.11"}},
		"nobody.plant.example":     {Code: "NXDOMAIN", Authoritative: true},
		"1.1.0.127.in-addr.arpa":   {Code: "NXDOMAIN", Authoritative: true},
		"example.com":              {Code: "NOERROR", Records: []string{"A 192.0.2.1"}}, // which is in the cache from then on
		"version.bind.example.com": {Code: "NOERROR", Records: []string{"A 192.0.2.1"}},
	}
	for _, tt := range []struct {
		who, from string
		refused   bool
	}{
		{"a node", "127.0.1.7", false},
		{"a pod", "127.0.2.200", false},
		{"a client of dns.yaml", "127.0.3.129", false},
		{"the neighbour of a client", "127.0.3.1", true},
		{"a stranger", "127.0.4.1", true},
		{"the machine itself by another address", "127.0.0.1", true},
	} {
		for _, network := range []string{"udp", "tcp"} {
			for name, want := range names {
				t.Run(tt.who+" "+network+" "+name, func(t *testing.T) {
					before := asked.Load()
					got, err := client.AskFrom(tt.from, network, addr, name, "A")
					require.NoError(t, err)
					if !tt.refused {
						got.Records = lower(got.Records)
						require.Equal(t, want, got)
						return
					}
					require.Equal(t, client.Answer{Code: "REFUSED"}, got)
					require.Equal(t, before, asked.Load(), "and nobody is asked for a stranger")
				})
			}
		}
	}
	t.Run("a name that is in no cache", func(t *testing.T) {
		before := asked.Load()
		got, err := client.AskFrom("127.0.4.1", "udp", addr, "fresh.example.com", "A")
		require.NoError(t, err)
		require.Equal(t, client.Answer{Code: "REFUSED"}, got)
		require.Equal(t, before, asked.Load())
	})
}
