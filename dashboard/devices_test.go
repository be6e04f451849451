package dashboard

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheDisksAndTheNetworkOfANodeAreText(t *testing.T) {
	p := newPlant(t, "edge-01")
	problem := error(nil)
	p.watch(t, Asker{Timeout: time.Second, Devices: func(_ context.Context, node string) (disks, network string, err error) {
		require.Equal(t, "edge-01", node)
		return "sda\n  " + evil, strings.Repeat("x", 2*maxDevices), problem
	}})
	_, text := p.page(t, "/devices/edge-01")
	requireClean(t, text)
	body := p.html(t, "/devices/edge-01")
	require.Contains(t, body, "sda\n  ", "lines stay lines")
	require.Less(t, len(body), 2*maxDevices)
	problem = errors.New("no answer" + evil)
	_, text = p.page(t, "/devices/edge-01")
	require.Contains(t, text, "It cannot be told: no answer")
	require.Contains(t, text, "spore status configs --node edge-01")
	requireClean(t, text)
	code, _ := p.page(t, "/devices/edge-99")
	require.Equal(t, http.StatusNotFound, code)
	require.Contains(t, p.html(t, "/nodes/edge-01"), `href="/devices/edge-01"`)
}
