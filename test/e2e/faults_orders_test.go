//go:build e2e

package e2e

import (
	"spore/test/faults"
)

// Rows of verbs that destroy or take away: each is cut off in the middle.

func orderRows() []faultRow {
	files := func(happens, pkg, pattern string) faultRow {
		return unit(faults.Order, happens, faults.Asked, pkg, pattern)
	}
	cluster := func(happens, pkg, pattern string) faultRow {
		return faults.Cluster[*faultLab](faults.Order, happens, faults.Asked, pkg, pattern)
	}
	const restore, quorum, ceph = "./services/kubernetes/etcd/restore", "./agent/verbs/quorum", "./agent/verbs/ceph"
	return []faultRow{
		files("reset: power cut at each write", "./agent/state", "^TestAReset"),
		files("adopt: power cut at each write", "./agent/state", "^TestAnAdoption"),
		files("etcd restore: what carries it out is killed before each change of a file, or the power is cut after a step",
			restore, "^TestARestore(ThatIsKilledAnywhereIsNotBegunOrGoesOn|GoesOnAfterAPowerCut)$"),
		files("etcd forget: what carries it out is killed before each change of a file", restore,
			"^TestWhatIsForgottenIsThereOrKeptWhereverItIsKilled$"),
		files("quorum form: what carries it out is killed before each change of a file", quorum,
			"^TestAQuorumWhoseFormingIsKilledAnywhereIsFormedByTheSameOrder$"),
		files("quorum forget: what carries it out is killed before each change of a file", quorum,
			"^TestAMemberWhoseForgettingIsKilledAnywhereIsForgottenByTheSameOrder$"),
		unit(faults.Order, "what carries it out is killed while it has stopped a service", faults.Whole, "./agent/pause",
			"^TestWhat(AKilledProcessHadStoppedStartsAgain|SomebodyStillWorksOnStaysAsItIs)$"),
		files("ceph osd-purge and monitor-remove: the answer is lost", ceph,
			"^Test(OnlyAnOSDThatIsLostIsForgotten|AMonitorThatWasTakenOutIsTakenOutAgain)$"),
		files("kafka move: it is asked for again while copies move", "./services/kafka/kraft",
			"^TestWhatMovesAlreadyIsNotMovedAnotherWay$"),
		cluster("etcd restore: its process is killed, or its machine loses power, at a moment that is drawn", "./test/nspawn",
			"^TestMastersRestored$"),
		cluster("kafka move: its process is killed at a moment that is drawn", "./test/nspawn", "^TestThreeBrokers$"),
		cluster("ceph monitor-remove: its process is killed at a moment that is drawn", "./test/nspawn", "^TestThreeMons$"),
		cluster("drain: its process is killed while a disruption budget holds a pod", "./test/services",
			"^TestNodesAreAsClusterYAMLSays$"),
	}
}
