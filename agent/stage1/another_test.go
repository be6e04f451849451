package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/bootdisk"
	"spore/agent/spare"
	"spore/storage/gpt"
)

func TestASystemThatCannotBeStartedGivesWayToTheOneBefore(t *testing.T) {
	vars, root, cluster := t.TempDir(), strings.Repeat("a", 64), strings.Repeat("b", 64)
	require.Equal(t, "no other system is noted that could be started instead", nextSystem(vars, root, cluster))
	_, err := spare.Keep(vars, root, cluster, "spore_1_0a.efi")
	require.NoError(t, err)
	require.Contains(t, nextSystem(vars, cluster, root), "no other system is noted", "it is another system's")
	require.Contains(t, nextSystem(vars, root, cluster), "start 1 of 3 that failed")
	require.Contains(t, nextSystem(vars, root, cluster), "start 2 of 3 that failed")
	for range 2 {
		require.Contains(t, nextSystem(vars, root, cluster), "the next start takes the one before, spore_1_0a.efi")
	}
	require.Contains(t, nextSystem(t.TempDir()+"/none", root, cluster), "no other system is noted")
}

func TestADiskThatDoesNotAnswerCountsForNothing(t *testing.T) {
	esp := gpt.GUID{1}
	with := []bootdisk.Seen{{}, {Table: gpt.Table{Partitions: []gpt.Partition{{Number: 1, GUID: esp}}}}}
	require.True(t, onSeenDisk(with, esp))
	require.False(t, onSeenDisk(with[:1], esp), "another disk")
	require.False(t, onSeenDisk(nil, esp))
	require.False(t, onSeenDisk(with, gpt.GUID{}), "it is not known which disk it is")
}
