package identity

import (
	"fmt"
	"strings"
)

// By says what kind of evidence decided, in the words of /run/spore/identity.json and the status line.
const (
	ByCmdline  = "cmdline"
	BySMBIOS   = "smbios"
	ByESP      = "esp"
	ByNoCloud  = "nocloud"
	ByMAC      = "mac"
	BySerial   = "serial"
	ByUUID     = "uuid"
	ByIP       = "ip"
	ByHostname = "hostname"
)

// Facts is what a machine knows of itself. Empty fields are unknown.
type Facts struct {
	// Cmdline, SMBIOS and ESP hold the node name of an explicit choice: spore.node= on the kernel command line, the
	// SMBIOS credential spore.node, the credential file on the ESP.
	Cmdline, SMBIOS, ESP string
	// NoCloud holds the node that a hypervisor names in user-data, on a volume or in credentials.
	NoCloud string
	// MACs holds the permanent addresses of the network cards.
	MACs []string
	// Serial and UUID are those of SMBIOS type 1 (DMTF DSP0134, section 7.2).
	Serial, UUID string
	// IPs and Hostnames are what DHCP gave (phase two).
	IPs, Hostnames []string
}

// Candidate is one piece of evidence: this value belongs to this node.
type Candidate struct {
	Node  string `json:"node"`
	By    string `json:"by"`
	Value string `json:"value"`
}

// Result says which node a machine is, and why.
type Result struct {
	// Node is empty when nothing matched, or when Problem is set.
	Node string `json:"node,omitempty"`
	// By and Value are the evidence of highest precedence for Node.
	By    string `json:"by,omitempty"`
	Value string `json:"value,omitempty"`
	// Phase is 1 when no network was needed, 2 when only DHCP told; 0 when nothing matched.
	Phase int `json:"phase,omitempty"`
	// Ambiguous says that the evidence points to different nodes; Candidates lists it.
	Ambiguous bool `json:"ambiguous,omitempty"`
	// Candidates holds all evidence of the phase, in order of precedence.
	Candidates []Candidate `json:"candidates,omitempty"`
	// Problem says why the machine is no node although something was found; then the network is not asked.
	Problem string `json:"problem,omitempty"`
}

// Match decides which node a machine is.
//
// An explicit choice wins over everything: the command line before SMBIOS before the ESP before NoCloud. A choice of a node
// that does not exist is a problem and never falls through to other evidence. NoCloud lies on a volume that somebody adds
// to a machine, beside a choice that was made: where it names another node, the machine is neither of them. Then comes
// phase one, the hardware: MACs, serial, UUID.
// Phase two, addresses and then host names from DHCP, is looked at only where phase one found nothing at all. Evidence of
// one phase that points to two nodes makes the machine neither of them.
func (x *Index) Match(f Facts) (Result, error) {
	cloud := Candidate{f.NoCloud, ByNoCloud, f.NoCloud}
	for _, c := range []Candidate{{f.Cmdline, ByCmdline, f.Cmdline}, {f.SMBIOS, BySMBIOS, f.SMBIOS}, {f.ESP, ByESP, f.ESP}, cloud} {
		if strings.TrimSpace(c.Value) == "" {
			continue
		}
		r, err := x.chosen(c)
		if err == nil && r.Node != "" && cloud.Value != "" && !strings.EqualFold(cloud.Value, r.Node) {
			return decide(1, []Candidate{r.Candidates[0], cloud}), nil
		}
		return r, err
	}
	hardware, err := x.gather([]evidence{
		{MAC, ByMAC, f.MACs}, {Serial, BySerial, []string{f.Serial}}, {UUID, ByUUID, []string{f.UUID}},
	})
	if err != nil || len(hardware) > 0 {
		return decide(1, hardware), err
	}
	network, err := x.gather([]evidence{{IP, ByIP, f.IPs}, {Hostname, ByHostname, f.Hostnames}})
	if err != nil || len(network) > 0 {
		return decide(2, network), err
	}
	return Result{}, nil
}

// chosen looks up a node that somebody named.
func (x *Index) chosen(c Candidate) (Result, error) {
	nodes, err := x.Lookup(Name, c.Value)
	if err != nil {
		return Result{}, err
	}
	if len(nodes) == 0 {
		return Result{
			By: c.By, Value: c.Value, Phase: 1,
			Problem: fmt.Sprintf("%s chooses node %.64q, which cluster.yaml does not have", sources[c.By], c.Value),
		}, nil
	}
	c.Node = nodes[0]
	return Result{Node: c.Node, By: c.By, Value: c.Value, Phase: 1, Candidates: []Candidate{c}}, nil
}

// sources says where an explicit choice was read.
var sources = map[string]string{
	ByCmdline: "the kernel command line (spore.node=)",
	BySMBIOS:  "the SMBIOS credential spore.node",
	ByESP:     "this medium's /spore/node",
	ByNoCloud: "the user-data of NoCloud (spore.node)",
}

type evidence struct {
	kind   Kind
	by     string
	values []string
}

// maxFacts bounds the values of one kind that are looked up; machines have fewer cards.
const maxFacts = 256

func (x *Index) gather(list []evidence) ([]Candidate, error) {
	var out []Candidate
	for _, e := range list {
		for _, v := range e.values[:min(len(e.values), maxFacts)] {
			nodes, err := x.Lookup(e.kind, v)
			if err != nil {
				return nil, err
			}
			for _, n := range nodes {
				norm, _ := Normalize(e.kind, v) // Lookup found it, so it has a normal form.
				out = append(out, Candidate{Node: n, By: e.by, Value: norm})
			}
		}
	}
	return out, nil
}

// decide makes a result of the evidence of one phase.
func decide(phase int, found []Candidate) Result {
	if len(found) == 0 {
		return Result{}
	}
	for _, c := range found[1:] {
		if c.Node != found[0].Node {
			return Result{Phase: phase, Ambiguous: true, Candidates: found, Problem: ambiguity(found)}
		}
	}
	return Result{Node: found[0].Node, By: found[0].By, Value: found[0].Value, Phase: phase, Candidates: found}
}

func ambiguity(found []Candidate) string {
	parts := make([]string, len(found))
	for i, c := range found {
		parts[i] = fmt.Sprintf("%s %s is %s", c.By, c.Value, c.Node)
	}
	return "this machine would be more than one node: " + strings.Join(parts, ", ")
}
