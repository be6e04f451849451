package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/spec"
)

// allDecisions has every key of decisions about maintainer scripts.
const allDecisions = `scripts:
  tcpdump:
    skip: [preinst, postinst, triggers]
    groups: [tcpdump, Debian-exim]
    users: [{name: tcpdump, group: tcpdump, home: /nonexistent, shell: /usr/sbin/nologin}, {name: _x}]
    modes:
      - {path: /usr/bin/tcpdump, owner: root, group: tcpdump, mode: "0750", capabilities: cap_net_raw=ep}
      - {path: /var/lib/tcpdump, owner: tcpdump}
    links: [{path: /usr/bin/editor, target: /usr/bin/vim.tiny}]
    setuid: [/usr/bin/foo]
  g++: {skip: [postinst]}
debconf:
  postfix: {postfix/main_mailer_type: "No configuration", postfix/mynetworks: "127.0.0.0/8", postfix/root_address: ""}
  x11: {x11/bypass: "true", x11/token-count: "3"}
`

func TestDecisionsAboutScripts(t *testing.T) {
	files := goodFolder(t)
	files["image.yaml"].Data = []byte(allDecisions)
	c, report := Check(files, Options{Strict: true})
	require.Empty(t, serious(report))
	require.Equal(t, spec.ScriptDecision{
		Skip:   []string{"preinst", "postinst", "triggers"},
		Groups: []string{"tcpdump", "Debian-exim"},
		Users: []spec.ScriptUser{
			{Name: "tcpdump", Group: "tcpdump", Home: "/nonexistent", Shell: "/usr/sbin/nologin"}, {Name: "_x"},
		},
		Modes: []spec.ScriptMode{
			{Path: "/usr/bin/tcpdump", Owner: "root", Group: "tcpdump", Mode: "0750", Capabilities: "cap_net_raw=ep"},
			{Path: "/var/lib/tcpdump", Owner: "tcpdump"},
		},
		Links:  []spec.ScriptLink{{Path: "/usr/bin/editor", Target: "/usr/bin/vim.tiny"}},
		SetUID: []string{"/usr/bin/foo"},
	}, c.Image.Scripts["tcpdump"])
	require.Equal(t, "No configuration", c.Image.Debconf["postfix"]["postfix/main_mailer_type"])
}

func TestADecisionIsTheSameInAnotherOrder(t *testing.T) {
	a := spec.ScriptDecision{Skip: []string{"postinst", "preinst"}, Users: []spec.ScriptUser{{Name: "b"}, {Name: "a"}}}
	b := spec.ScriptDecision{Skip: []string{"preinst", "postinst"}, Users: []spec.ScriptUser{{Name: "a"}, {Name: "b"}}}
	require.Equal(t, a.Sorted(), b.Sorted())
	require.Equal(t, []string{"postinst", "preinst"}, a.Skip, "the original keeps its order")
}
