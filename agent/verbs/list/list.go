// Package list has what each verb of nodeapi.Verbs does.
package list

import (
	"spore/agent/verbs"
	"spore/agent/verbs/adopt"
	"spore/agent/verbs/alerts"
	"spore/agent/verbs/bundle"
	"spore/agent/verbs/capture"
	"spore/agent/verbs/ceph"
	"spore/agent/verbs/clean"
	"spore/agent/verbs/configuration"
	"spore/agent/verbs/disks"
	"spore/agent/verbs/dmesg"
	"spore/agent/verbs/drain"
	"spore/agent/verbs/etcd"
	"spore/agent/verbs/install"
	"spore/agent/verbs/kafka"
	"spore/agent/verbs/kubernetes"
	"spore/agent/verbs/locate"
	"spore/agent/verbs/logs"
	"spore/agent/verbs/metrics"
	"spore/agent/verbs/network"
	"spore/agent/verbs/podlogs"
	"spore/agent/verbs/power"
	"spore/agent/verbs/probe"
	"spore/agent/verbs/quorum"
	"spore/agent/verbs/reset"
	"spore/agent/verbs/restart"
	"spore/agent/verbs/shell"
	"spore/agent/verbs/support"
	"spore/agent/verbs/top"
	"spore/wire/nodeapi"
)

// Handlers are the verbs by name.
func Handlers() map[string]verbs.Handler {
	storage, database, quorums := ceph.Ceph{Run: verbs.Machine}, etcd.Etcd{Run: verbs.Machine}, quorum.Verbs{Run: verbs.Machine}
	sessions, told := shell.Shell{Run: verbs.Machine}, alerts.Here()
	all := support.Support{Run: verbs.Machine, Verbs: map[string]verbs.Handler{
		"disks": disks.Show, "net": network.Show, "top": top.Show,
	}}
	return map[string]verbs.Handler{
		"adopt":               adopt.Adopt,
		"alerts":              told.Show,
		"alerts-silence":      told.Silence,
		"alerts-silences":     told.Silences,
		"alerts-unsilence":    told.Unsilence,
		"bundle":              bundle.Show,
		"capture":             capture.Packets,
		"ceph-monitor-remove": storage.RemoveMonitor,
		"ceph-osd-in":         storage.In,
		"ceph-osd-out":        storage.Out,
		"ceph-osd-purge":      storage.Purge,
		nodeapi.OSDSafe:       storage.Safe,
		"ceph-status":         storage.Status,
		"clean":               clean.Clean,
		"clean-given-up":      clean.GivenUp,
		"configuration-show":  configuration.Show,
		"disks":               disks.Show,
		"dmesg":               dmesg.Show,
		"drain":               drain.Drain,
		"etcd-forget":         database.Forget,
		"etcd-members":        database.Members,
		"etcd-remove":         database.Remove,
		"etcd-restore":        database.Restore,
		"etcd-snapshot":       database.Snapshot,
		"etcd-stop":           database.Stop,
		"install":             install.Install,
		"kafka-lag":           kafka.Lag,
		"kafka-move":          kafka.Move,
		"kafka-quorum":        kafka.Quorum,
		"kafka-topics":        kafka.Topics,
		"kubernetes-status":   kubernetes.Status,
		"locate":              locate.Locate,
		nodeapi.PodLogs:       podlogs.Show,
		nodeapi.LogsQuery:     logs.Here().Query,
		"metrics-page":        metrics.Here().Page,
		"metrics-query":       metrics.Here().Query,
		"net":                 network.Show,
		"probe":               probe.Run,
		"quorum-forget":       quorums.Forget,
		"quorum-form":         quorums.Form,
		"quorum-show":         quorums.Show,
		"reboot":              power.Reboot,
		"reset":               reset.Reset,
		"restart":             restart.Restart,
		"shell-acknowledge":   sessions.Acknowledge,
		"shell-replay":        sessions.Replay,
		"shell-sessions":      sessions.List,
		"shutdown":            power.Shutdown,
		"support":             all.Collect,
		"top":                 top.Show,
		"uncordon":            drain.Uncordon,
	}
}
