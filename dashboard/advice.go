package dashboard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxAdvice bounds the rows of a kind that a page of a service has on top: its tables have the others.
const maxAdvice = 3

// adviser is what a page of a service shows that says what is wrong with it.
type adviser interface{ troubles(h help) []Trouble }

// help makes commands: of the operator's folder, and of nodes that there are. A name that a service gives is no node, and
// stays out of commands, unless it is one.
type help struct {
	dir   string
	nodes map[string]bool
}

func (s *Server) help(v View) help {
	h := help{s.Dir, map[string]bool{}}
	for _, n := range v.Nodes {
		h.nodes[n.Name] = true
	}
	return h
}

// command is a command of the folder with words behind it, such as "kafka topics".
func (h help) command(words string, more ...string) string {
	return strings.Join(append([]string{"spore", words, h.dir}, more...), " ")
}

// of are commands about a program of a node; none where it is not one of the cluster's.
func (h help) of(node, unit string) []string {
	if !h.nodes[node] {
		return nil
	}
	return []string{h.command("health", "--all --node", node), h.command("logs", node, unit)}
}

// trouble is about a node, where the name is that of one.
func (h help) trouble(level Level, node, name, text string, do ...string) Trouble {
	if !h.nodes[node] {
		if node != "" {
			text = node + ": " + text
		}
		node = ""
	}
	return Trouble{Level: level, Node: node, Name: name, Text: text, Do: do}
}

// plural is how many there are of a noun, in words that go on with what these do.
func plural(noun string, many int) string {
	if many == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", many, noun)
}

// worst are the first rows of those that are not fine.
func worst[T any](rows []T, level func(T) Level) []T {
	var out []T
	for _, r := range rows {
		if level(r) > Fine && len(out) < maxAdvice {
			out = append(out, r)
		}
	}
	return out
}

func (p *pods) troubles(h help) (out []Trouble) {
	for _, n := range worst(p.Nodes, func(n kubeNode) Level { return n.Level }) {
		name, text := "pressed", n.Wrong
		if n.Level == Critical {
			name, text = "not ready", cmp.Or(n.Wrong, "kubelet says no more")
		}
		out = append(out, h.trouble(n.Level, n.Name, name, text, h.of(n.Name, "kubelet")...))
	}
	if many := len(p.Pods); many > 0 {
		first := p.Pods[0]
		text := fmt.Sprintf("%d pods are not well; the first is %s/%s: %s", many, first.Namespace, first.Name, first.Why)
		if many == 1 {
			text = fmt.Sprintf("%s/%s is not well: %s", first.Namespace, first.Name, first.Why)
		}
		out = append(out, h.trouble(Warning, "", "pods", text, h.command("logs", "--since 1h --pod", word(first.Namespace+"/"+first.Name)), h.command("kubernetes status")))
	}
	if len(p.Behind) > 0 {
		first := p.Behind[0]
		out = append(out, h.trouble(Warning, "", "workloads", fmt.Sprintf("%s without all pods, such as %s %s/%s: %d of %d are ready",
			plural("workload", len(p.Behind)), first.Kind, first.Namespace, first.Name, first.Ready, first.Wanted), h.command("kubernetes status")))
	}
	if len(p.Volumes) > 0 {
		out = append(out, h.trouble(Warning, "", "volumes", fmt.Sprintf("%s not bound, such as %s: %s",
			plural("volume", len(p.Volumes)), p.Volumes[0].Name, p.Volumes[0].State), h.command("kubernetes status"), "read docs/volumes.md#when-a-pod-waits-for-its-volume"))
	}
	return out
}

func (s *streams) troubles(h help) (out []Trouble) {
	for name, text := range map[string]string{"quorum": s.QuorumTrouble, "topics": s.TopicsTrouble, "lag": s.LagTrouble} {
		if text != "" {
			out = append(out, h.trouble(Warning, "", name, "it is not known how it is now: "+text, h.command("kafka "+name)))
		}
	}
	if s.Controllers != nil {
		out = append(out, s.Controllers.troubles(h)...)
	}
	for _, b := range worst(s.Brokers, func(b named) Level { return b.Level }) {
		out = append(out, h.trouble(b.Level, b.Name, "broker", "the broker is down", h.of(b.Name, "kafka")...))
	}
	if s.Offline > 0 {
		out = append(out, h.trouble(Critical, "", "topics", fmt.Sprintf("%s without a leader, which nobody reads or writes; the first topic is %s",
			plural("partition", s.Offline), s.Topics[0].Name), "start the brokers that have their copies", h.command("kafka topics")))
	}
	for _, text := range s.LagSaid[:min(len(s.LagSaid), maxAdvice)] {
		out = append(out, h.trouble(Warning, "", "lag", "it is not known of all groups how far they are behind: "+text, h.command("kafka lag")))
	}
	if s.Behind > s.Offline {
		out = append(out, h.trouble(Warning, "", "copies", plural("partition", s.Behind)+" with copies that are behind", h.command("kafka topics")))
	}
	return out
}

// advice are the command that tells more of a quorum, the unit of its members, and what to do when one is lost for good.
var advice = map[string][3]string{
	ofEtcd: {"etcd members", "etcd", "a-master-is-lost-for-good"}, ofControllers: {"kafka quorum", "kafka", "a-broker-is-lost"},
	ofMonitors: {"ceph status", "ceph-mon", "a-monitor-is-lost"},
}

func (m *members) troubles(h help) []Trouble {
	if m.Level == Fine {
		return nil
	}
	about := advice[m.Service]
	text := m.Says()
	if m.Trouble != "" {
		text = "it is not known how it is now: " + m.Trouble
	}
	do := []string{h.command(about[0])}
	for _, r := range worst(m.Members, func(r member) Level { return r.Level }) {
		do = append(do, h.of(r.Name, about[1])...)
	}
	do = append(do, "read docs/repair.md#"+about[2])
	return []Trouble{h.trouble(m.Level, "", m.Service, text, do...)}
}

func (q quorums) troubles(h help) (out []Trouble) {
	for _, m := range q {
		out = append(out, m.troubles(h)...)
	}
	return out
}

func (s *storage) troubles(h help) (out []Trouble) {
	for _, c := range worst(s.Checks, func(c named) Level { return c.Level }) {
		out = append(out, h.trouble(c.Level, "", c.Name, c.State, h.command("ceph status"), "read docs/ceph.md#when-something-is-wrong"))
	}
	if len(out) == 0 && s.Level > Fine {
		out = append(out, h.trouble(s.Level, "", "health", s.Health+"; monitors: "+s.Monitors, h.command("ceph status"), "read docs/ceph.md#when-something-is-wrong"))
	}
	for _, text := range s.Missing[:min(len(s.Missing), maxAdvice)] {
		out = append(out, h.trouble(Warning, "", "missing", text, h.command("ceph status")))
	}
	found := 0
	for _, on := range s.Hosts {
		for _, o := range on.OSDs {
			if o.Level > Fine && found < maxAdvice {
				found++
				do := []string{h.command("ceph status"), "read docs/alerts.md#cephnearlyfull"}
				if down := strings.HasPrefix(o.State, "down"); down && h.nodes[on.Name] {
					do = []string{h.command("disks", "--node", on.Name), h.command("logs", on.Name), "read docs/repair.md#the-disk-of-an-osd-is-dead"}
				} else if down {
					do[1] = "read docs/repair.md#the-disk-of-an-osd-is-dead"
				}
				out = append(out, h.trouble(o.Level, on.Name, o.Name, o.State+", "+o.Percent+" full", do...))
			}
		}
	}
	for _, p := range worst(s.Pools, func(p pool) Level { return p.Level }) {
		out = append(out, h.trouble(p.Level, "", "pool", p.Name+" is "+p.Percent+" full, and has "+p.Free+" free", "read docs/ceph.md#when-something-is-wrong"))
	}
	return out
}

func (m *messaging) troubles(h help) (out []Trouble) {
	for _, n := range worst(m.MQTT, func(n mqttNode) Level { return n.Level }) {
		text := cmp.Or(n.Problem, n.Dropped+" messages a second are dropped: clients take theirs too slowly, or stay away")
		out = append(out, h.trouble(n.Level, n.Name, "MQTT", text, h.of(n.Name, "mosquitto")...))
	}
	for _, n := range worst(m.DNS, func(n dnsNode) Level { return n.Level }) {
		text := cmp.Or(n.Problem, n.Errors+" errors a second; "+n.Unreachable+" times a second there was no other server to ask")
		out = append(out, h.trouble(n.Level, n.Name, "DNS", text, h.of(n.Name, "coredns")...))
	}
	return out
}

// advised are what is wrong with a service, the worst on top.
func advised(value any, h help) []Trouble {
	a, does := value.(adviser)
	if !does {
		return nil
	}
	out := a.troubles(h)
	slices.SortStableFunc(out, func(a, b Trouble) int {
		return cmp.Or(cmp.Compare(b.Level, a.Level), strings.Compare(a.Name, b.Name), strings.Compare(a.Node, b.Node))
	})
	return out
}
