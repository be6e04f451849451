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
	require.Empty(t, nextSystem(vars, root, cluster), "no other system is noted")
	_, err := spare.Keep(vars, root, cluster, "spore_1_0a.efi")
	require.NoError(t, err)
	require.Empty(t, nextSystem(vars, cluster, root), "it is another system's")
	require.Empty(t, nextSystem(vars, root, cluster), "nothing has failed before")
	require.Contains(t, nextSystem(vars, root, cluster), "start 2 of 3: the one before failed")
	require.Equal(t, "2 starts of this system failed: unless this one succeeds, the next takes the one before, spore_1_0a.efi",
		nextSystem(vars, root, cluster))
	require.Contains(t, nextSystem(vars, root, cluster), "3 starts of this system failed: unless")
	require.Empty(t, nextSystem(t.TempDir()+"/none", root, cluster))
}

func TestADiskThatDoesNotAnswerCountsForNothing(t *testing.T) {
	esp := gpt.GUID{1}
	with := []bootdisk.Seen{{}, {Table: gpt.Table{Partitions: []gpt.Partition{{Number: 1, GUID: esp}}}}}
	require.True(t, onSeenDisk(with, esp))
	require.False(t, onSeenDisk(with[:1], esp), "another disk")
	require.False(t, onSeenDisk(nil, esp))
	require.False(t, onSeenDisk(with, gpt.GUID{}), "it is not known which disk it is")
}
