// Package netnstest lets a test have a network of its own: it runs again in a new network namespace, with a user
// namespace around it where the caller is not root. For tests only.
package netnstest

import (
	"net"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
)

// variable names the test that already runs in its namespace.
const variable = "SPORE_TEST_NETNS"

// Run runs body in a network namespace in which there is nothing but a loopback.
func Run(t *testing.T, body func(t *testing.T)) {
	if os.Getenv(variable) == t.Name() {
		body(t)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), variable+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if uid := os.Geteuid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "in a network namespace of its own:\n%s", out)
	t.Logf("%s", out)
	// go test knows nothing of that process, which is content with no test, too.
	end := regexp.MustCompile(`(?m)^ *--- (PASS|SKIP): ` + regexp.QuoteMeta(t.Name()) + ` `).FindSubmatch(out)
	require.NotNil(t, end, "no test ran in a network namespace of its own:\n%s", out)
	if string(end[1]) == "SKIP" {
		t.Skip(reason(string(out)))
	}
}

// logged is a line of t.Skip or t.Log.
var logged = regexp.MustCompile(`(?m)^ *\S+\.go:\d+: (.*)$`)

// reason is what a test that ended logged last.
func reason(out string) string {
	lines := logged.FindAllStringSubmatch(out, -1)
	if len(lines) == 0 {
		return "it is skipped in a network namespace of its own"
	}
	return lines[len(lines)-1][1]
}

// Veth makes a pair of connected interfaces with these MACs, both up.
func Veth(t *testing.T, name, mac, peer, peerMAC string) (index, peerIndex int) {
	hw, err := net.ParseMAC(mac)
	require.NoError(t, err)
	peerHW, err := net.ParseMAC(peerMAC)
	require.NoError(t, err)
	require.NoError(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, HardwareAddr: hw}, PeerName: peer, PeerHardwareAddr: peerHW}))
	indexes := [2]int{}
	for i, n := range []string{name, peer} {
		l, err := netlink.LinkByName(n)
		require.NoError(t, err)
		require.NoError(t, netlink.LinkSetUp(l))
		indexes[i] = l.Attrs().Index
	}
	return indexes[0], indexes[1]
}

// Address gives an interface an address with prefix length.
func Address(t *testing.T, name, address string) {
	l, err := netlink.LinkByName(name)
	require.NoError(t, err)
	a, err := netlink.ParseAddr(address)
	require.NoError(t, err)
	require.NoError(t, netlink.AddrAdd(l, a))
}
