package nodeapi

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"spore/wire/machine"
	"spore/wire/pcapfilter"
	"spore/wire/shell"
)

// OSDSafe is the verb that tells whether Ceph bears the absence of OSDs (OSDsAnswer).
const OSDSafe = "ceph-osd-safe"

// maxOSDs is how many OSDs a node has at most.
const maxOSDs = 200

// OSDsAnswer is the result of OSDSafe.
type OSDsAnswer struct {
	// Running are those asked about that serve now.
	Running []int `json:"running"`
	// Others is how many other OSDs serve now.
	Others int `json:"others"`
	// Unsafe is why data would not be available without them, or would be lost, as Ceph says it; empty where it is not.
	Unsafe string `json:"unsafe,omitempty"`
}

// maxUnix is the last second of year 9999, since the begin of 1970, and maxQuery the longest query in bytes.
const (
	maxUnix  = 253402300799
	maxQuery = 8 << 10
)

// maxLocate is how long a machine shows where it is at most.
const maxLocate = time.Hour

// Verbs is the table of what a person may have a node do, in the order of the alphabet. What a verb does is in a
// package of agent/verbs.
func Verbs() []Verb {
	return []Verb{
		{Name: "adopt", Kind: Acts, Who: Owners(), Destroys: true, Arguments: []Argument{{Name: "partition", Check: partUUID}}},
		{Name: "alerts", Kind: Looks, Who: Lookers()},
		{
			Name: "alerts-silence", Kind: Acts, Who: Hands(), Quorum: true, AtOnce: 4,
			Arguments: []Argument{
				{Name: "name", Check: labelValue}, {Name: "node", Check: name}, {Name: "labels", Check: labels},
				{Name: "for", Needed: true, Check: span(MinSilence, MaxSilence)}, {Name: "comment", Needed: true, Check: comment},
			},
		},
		{Name: "alerts-silences", Kind: Looks, Who: Lookers()},
		{Name: "alerts-unsilence", Kind: Acts, Who: Hands(), AtOnce: 4, Arguments: []Argument{{Name: "id", Needed: true, Check: silenceID}}},
		{Name: "bundle", Kind: Looks, Who: Lookers()},
		{
			Name: "capture", Kind: Looks, Who: Hands(), Bound: (machine.MaxSeconds + 60) * time.Second, AtOnce: 2,
			Arguments: []Argument{
				{Name: "filter", Check: filter}, {Name: "interface", Check: interfaceName}, {Name: "seconds", Check: number(1, machine.MaxSeconds)},
				{Name: "packets", Check: number(1, machine.MaxPackets)}, {Name: "bytes", Check: number(1, machine.MaxBytes)},
				{Name: "snap", Check: number(64, machine.MaxSnap)}, {Name: "api", Check: OneOf("yes", "no")},
			},
		},
		{Name: "ceph-monitor-remove", Kind: Acts, Who: Owners(), Destroys: true, Quorum: true, Bound: 5 * time.Minute,
			Arguments: []Argument{{Name: "monitor", Needed: true, Check: name}}},
		{Name: "ceph-osd-in", Kind: Acts, Who: Hands(), Bound: 110 * time.Minute, Arguments: osdArguments()},
		{Name: "ceph-osd-out", Kind: Acts, Who: Hands(), Bound: 110 * time.Minute, Arguments: osdArguments()},
		{Name: "ceph-osd-purge", Kind: Acts, Who: Owners(), Destroys: true, Quorum: true, Bound: 5 * time.Minute,
			Arguments: []Argument{{Name: "osd", Needed: true, Check: number(0, 100000)}}},
		// A node asks it of those that have a monitor, before it takes its OSDs away (package majority). Each call
		// starts ceph(8) twice.
		{Name: OSDSafe, Kind: Looks, Who: append(Lookers(), Node), Bound: 2 * time.Minute, AtOnce: 4,
			Arguments: []Argument{
				{Name: "osds", Needed: true, Check: osdNumbers}, {Name: "to", Needed: true, Check: OneOf("stop", "destroy")},
			}},
		{Name: "ceph-status", Kind: Looks, Who: Lookers(), Bound: 2 * time.Minute},
		{Name: "clean", Kind: Acts, Who: Hands(), Bound: 10 * time.Minute, Arguments: []Argument{{Name: "journal", Check: number(16, 4096)}}},
		{Name: "clean-given-up", Kind: Acts, Who: Owners(), Destroys: true, Bound: 10 * time.Minute},
		{Name: "configuration-show", Kind: Looks, Who: Lookers(), AtOnce: 2, Arguments: []Argument{{Name: "file", Check: configurationFile}}},
		{Name: "disks", Kind: Looks, Who: Lookers()},
		{Name: "dmesg", Kind: Looks, Who: Lookers(), Arguments: []Argument{{Name: "lines", Check: number(1, MaxLines)}}},
		{Name: "drain", Kind: Acts, Who: Hands(), Bound: 110 * time.Minute, AtOnce: 4,
			Arguments: []Argument{{Name: "node", Needed: true, Check: name}, {Name: "lose", Check: OneOf("yes", "no")}}},
		{Name: "etcd-forget", Kind: Acts, Who: Owners(), Destroys: true, Bound: 10 * time.Minute},
		{Name: "etcd-members", Kind: Looks, Who: Lookers()},
		{Name: "etcd-remove", Kind: Acts, Who: Owners(), Destroys: true, Bound: 5 * time.Minute,
			Arguments: []Argument{{Name: "member", Needed: true, Check: name}}},
		{Name: "etcd-restore", Kind: Acts, Who: Owners(), Destroys: true, Quorum: true, Bound: 30 * time.Minute,
			Arguments: []Argument{{Name: "from", Check: snapshotName}}},
		{Name: "etcd-snapshot", Kind: Acts, Who: Hands(), Bound: 10 * time.Minute},
		{Name: "etcd-stop", Kind: Acts, Who: Owners(), Destroys: true, Quorum: true, Bound: 10 * time.Minute},
		{
			Name: "install", Kind: Acts, Who: Owners(), Destroys: true, Bound: 110 * time.Minute,
			Arguments: []Argument{
				{Name: "disk", Needed: true, Check: diskName}, {Name: "erase-state", Check: OneOf("yes", "no")},
				{Name: "without-bundle", Check: OneOf("yes", "no")},
			},
		},
		{Name: "kafka-lag", Kind: Looks, Who: Lookers(), Bound: 2 * time.Minute},
		{Name: "kafka-move", Kind: Acts, Who: Hands(), Bound: 110 * time.Minute,
			Arguments: []Argument{{Name: "off", Needed: true, Check: name}, {Name: "shrink", Check: OneOf("yes", "no")}}},
		{Name: "kafka-quorum", Kind: Looks, Who: Lookers()},
		{Name: "kafka-topics", Kind: Looks, Who: Lookers()},
		// Lists of all pages, of an API server that may be slow.
		{Name: "kubernetes-status", Kind: Looks, Who: Lookers(), Bound: 2 * time.Minute, AtOnce: 2},
		{Name: "locate", Kind: Acts, Who: Hands(), Bound: maxLocate + time.Minute,
			Arguments: []Argument{{Name: "for", Check: span(time.Second, maxLocate)}}},
		{
			// For whom cluster.yaml lets read the logs of pods (facts.Cluster, LogRights). Somebody may follow them.
			Name: PodLogs, Kind: Looks, Who: Lookers(), Bound: 110 * time.Minute,
			Arguments: []Argument{
				{Name: "pod", Needed: true, Check: podName}, {Name: "lines", Check: number(0, MaxLines)}, {Name: "since", Check: moment},
				{Name: "until", Check: moment}, {Name: "grep", Check: expression}, {Name: "follow", Check: OneOf("yes")},
			},
		},
		{
			// Without the audit log and pods' logs where the caller may not read those (facts.Cluster, LogRights).
			Name: LogsQuery, Kind: Looks, Who: Lookers(), Bound: 2 * time.Minute, AtOnce: 4,
			Arguments: []Argument{
				{Name: "nodes", Check: names}, {Name: "units", Check: unitNames}, {Name: "pod", Check: podName},
				{Name: "sources", Check: logSources}, {Name: "since", Check: moment}, {Name: "until", Check: moment},
				{Name: "priority", Check: priority}, {Name: "grep", Check: expression}, {Name: "boot", Check: boot},
				{Name: "lines", Check: number(0, MaxStoreLines)},
			},
		},
		{
			// A page asks for what it shows at once.
			Name: "metrics-page", Kind: Looks, Who: Lookers(), Bound: time.Minute, AtOnce: 8,
			Arguments: []Argument{{Name: "path", Needed: true, Check: pagePath}, {Name: "query", Check: pageQuery}},
		},
		{
			Name: "metrics-query", Kind: Looks, Who: Lookers(), Bound: time.Minute, AtOnce: 4,
			Arguments: []Argument{
				{Name: "query", Needed: true, Check: query}, {Name: "from", Check: number(0, maxUnix)},
				{Name: "until", Check: number(0, maxUnix)}, {Name: "step", Check: number(1, 366*24*3600)},
			},
		},
		{Name: "net", Kind: Looks, Who: Lookers()},
		{
			Name: "probe", Kind: Looks, Who: Hands(), Bound: 3 * time.Minute,
			Arguments: []Argument{
				{Name: "kind", Needed: true, Check: OneOf(machine.Ping, machine.DNS, machine.TCP)}, {Name: "target", Needed: true, Check: target},
				{Name: "server", Check: address}, {Name: "count", Check: number(1, machine.MaxProbes)},
			},
		},
		{Name: "quorum-forget", Kind: Acts, Who: Owners(), Destroys: true, Quorum: true, Bound: 10 * time.Minute,
			Arguments: []Argument{{Name: "quorum", Needed: true, Check: name}}},
		{Name: "quorum-form", Kind: Acts, Who: Owners(), Destroys: true, Bound: 10 * time.Minute,
			Arguments: []Argument{{Name: "quorum", Needed: true, Check: name}, {Name: "lose", Check: names}}},
		{Name: "quorum-show", Kind: Looks, Who: Lookers()},
		{Name: "reboot", Kind: Acts, Who: Hands(), Quorum: true, Bound: 3 * time.Minute},
		{Name: "reset", Kind: Acts, Who: Owners(), Destroys: true, Quorum: true, Bound: 10 * time.Minute,
			Arguments: []Argument{{Name: "disk", Check: diskName}}},
		{Name: "restart", Kind: Acts, Who: Hands(), Quorum: true, Bound: 15 * time.Minute,
			Arguments: []Argument{{Name: "unit", Needed: true, Check: unitOrRole}}},
		{Name: "shell-acknowledge", Kind: Acts, Who: Owners(), Arguments: []Argument{{Name: "session", Needed: true, Check: session}}},
		{Name: "shell-replay", Kind: Looks, Who: Owners(), Bound: 10 * time.Minute, AtOnce: 2,
			Arguments: []Argument{{Name: "session", Needed: true, Check: session}}},
		{Name: "shell-sessions", Kind: Looks, Who: Lookers()},
		{Name: "shutdown", Kind: Acts, Who: Hands(), Quorum: true, Bound: 3 * time.Minute},
		{Name: "support", Kind: Looks, Who: Hands(), Bound: 20 * time.Minute, AtOnce: 2,
			Arguments: []Argument{{Name: "lines", Check: number(1, 1_000_000)}}},
		{
			// Somebody who looks at it live has it for an hour.
			Name: "top", Kind: Looks, Who: Lookers(), Bound: time.Hour + time.Minute,
			Arguments: []Argument{
				{Name: "seconds", Check: number(1, 60)}, {Name: "count", Check: number(1, 3600)}, {Name: "rows", Check: number(1, 1000)},
				{Name: "summary", Check: OneOf("yes", "no")},
			},
		},
		{Name: "uncordon", Kind: Acts, Who: Hands(), Arguments: []Argument{{Name: "node", Needed: true, Check: name}}},
	}
}

// osdArguments are those of what moves the data of an OSD.
func osdArguments() []Argument {
	return []Argument{{Name: "osd", Needed: true, Check: number(0, 100000)}, {Name: "wait", Check: OneOf("yes", "no")}}
}

// osdNumbers is a Check that takes numbers of OSDs with commas between them.
func osdNumbers(value string) error {
	list := strings.Split(value, ",")
	if len(list) > maxOSDs {
		return fmt.Errorf("a node has at most %d OSDs", maxOSDs)
	}
	for _, n := range list {
		if err := number(0, 100000)(n); err != nil {
			return err
		}
	}
	return nil
}

// name is a Check that takes the name of a node or a quorum.
func name(value string) error {
	if len(value) > maxNodeName || !nodeName.MatchString(value) {
		return fmt.Errorf("%.64q is not a name", value)
	}
	return nil
}

// names is a Check that takes names with commas between them.
func names(value string) error {
	for n := range strings.SplitSeq(value, ",") {
		if err := name(n); err != nil {
			return err
		}
	}
	return nil
}

// configurationFile is a Check that takes the path of a file of the operator's folder.
func configurationFile(value string) error {
	if value == "" || len(value) > 256 || !made(value, "/._-") || path.Clean(value) != value || path.IsAbs(value) || strings.HasPrefix(value, "..") {
		return fmt.Errorf("%.64q is not the path of a file of the configuration", value)
	}
	return nil
}

// snapshotName is a Check that takes the name of a snapshot's file.
func snapshotName(value string) error {
	_, err := ParseSnapshotName(value)
	return err
}

// session is a Check that takes the name of a session of an emergency shell.
func session(value string) error {
	if !shell.IsID(value) {
		return fmt.Errorf("%.64q is not a session; they have 32 hexadecimal digits, as spore shell NODE --replay lists them", value)
	}
	return nil
}

// number is a Check that takes whole numbers within bounds.
func number(least, most int) func(string) error {
	return func(value string) error {
		if n, err := strconv.Atoi(value); err != nil || n < least || n > most || strconv.Itoa(n) != value {
			return fmt.Errorf("%.64q is not a number from %d to %d", value, least, most)
		}
		return nil
	}
}

// filter is a Check that takes a filter of packets.
func filter(value string) error {
	_, err := pcapfilter.Parse(value)
	return err
}

// query is a Check that takes queries of metrics; the store says what is wrong with one.
func query(value string) error {
	switch {
	case len(value) > maxQuery:
		return fmt.Errorf("a query has at most %d bytes", maxQuery)
	case !utf8.ValidString(value) || strings.TrimSpace(value) == "":
		return errors.New("a query is text")
	}
	return nil
}

// pageAnswers are what the page of the store of metrics may ask for besides its own files: it reads and changes nothing
// by them (VictoriaMetrics, url-examples). Others write, delete, show flags and profiles, or hand out all there is.
var pageAnswers = []string{
	"/api/v1/labels", "/api/v1/metadata", "/api/v1/query", "/api/v1/query_range", "/api/v1/series", "/api/v1/status/active_queries",
	"/api/v1/status/buildinfo", "/api/v1/status/metric_names_stats", "/api/v1/status/top_queries", "/api/v1/status/tsdb",
	"/prettify-query",
}

// maxPagePath bounds paths of the page in bytes.
const maxPagePath = 256

// pagePath is a Check that takes paths of the page of the store of metrics.
func pagePath(value string) error {
	refused := fmt.Errorf("%.64q is not of the page", value)
	if len(value) > maxPagePath || !made(value, "/._-") || path.Clean(value) != strings.TrimSuffix(value, "/") {
		return refused
	}
	label, isLabel := strings.CutPrefix(value, "/api/v1/label/")
	name, isValues := strings.CutSuffix(label, "/values")
	switch {
	case slices.Contains(pageAnswers, value):
	case isLabel && isValues && made(name, "_.-") && name != "":
	case strings.HasPrefix(value, "/vmui/"):
	default:
		return refused
	}
	return nil
}

// pageQuery is a Check that takes what follows the question mark.
func pageQuery(value string) error {
	if len(value) > maxQuery {
		return fmt.Errorf("a query has at most %d bytes", maxQuery)
	}
	if _, err := url.ParseQuery(value); err != nil {
		return errors.New("the query is malformed")
	}
	return nil
}

// interfaceName is a Check that takes names of interfaces (Linux, dev_valid_name).
func interfaceName(value string) error {
	if len(value) > 15 || !made(value, "_.@-") || value == "." || value == ".." {
		return fmt.Errorf("%.64q is not the name of an interface", value)
	}
	return nil
}

// target is a Check that takes a host's name or address, with or without a port.
func target(value string) error {
	if len(value) > 260 || !made(value, "_.:%[]-") {
		return fmt.Errorf("%.64q is not a name or an address", value)
	}
	return nil
}

// made tells whether a text has letters and digits of ASCII alone, and these signs. A regular expression would be
// compiled at each start of the agent.
func made(text, signs string) bool {
	return strings.IndexFunc(text, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune(signs, r))
	}) < 0
}

// address is a Check that takes an IP address.
func address(value string) error {
	if _, err := netip.ParseAddr(value); err != nil {
		return fmt.Errorf("%.64q is not an IP address", value)
	}
	return nil
}

// span is a Check that takes durations within bounds.
func span(least, most time.Duration) func(string) error {
	return func(value string) error {
		if d, err := time.ParseDuration(value); err != nil || d < least || d > most {
			return fmt.Errorf("%.64q is not a time from %s to %s; write it as 90s or 5m", value, least, most)
		}
		return nil
	}
}

// partUUID takes a PARTUUID as blkid(8) prints it.
func partUUID(value string) error {
	wrong := fmt.Errorf("%.64q is not a PARTUUID; write it as 3d1219c7-c4c5-404a-aa1f-6d2a48adfda4", value)
	groups := strings.Split(value, "-")
	if len(groups) != 5 {
		return wrong
	}
	for i, digits := range []int{8, 4, 4, 4, 12} {
		if len(groups[i]) != digits || strings.Trim(groups[i], "0123456789abcdefABCDEF") != "" {
			return wrong
		}
	}
	return nil
}

// diskName takes what names a disk: a serial number, wwn:WWN, or id:NAME.
func diskName(value string) error {
	if len(value) > maxUnit || strings.TrimSpace(value) != value {
		return fmt.Errorf("%.64q does not name a disk; write its serial number, wwn:WWN, or id:NAME of /dev/disk/by-id", value)
	}
	return nil
}

// unitOrRole takes the name of a unit, or of a role; which it is, and whether it is one of the node's, the node knows.
func unitOrRole(value string) error {
	if _, err := UnitName(value); err != nil {
		return errors.New(strings.Replace(err.Error(), "a name of a unit", "a name of a unit or of a role", 1))
	}
	return nil
}
