package mqtt

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNoUserOfSettingsCanHaveTheCollectorsName(t *testing.T) {
	require.False(t, userName.MatchString(MetricsUser))
}
