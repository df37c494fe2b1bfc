package core

import (
	"strconv"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
)

// rankHeader names the rank of a server that serves a request, in vLLM (get_data_parallel_rank of its API servers) and
// SGLang (extract_routed_dp_rank_from_header). A server refuses a rank that it does not have.
const rankHeader = "x-data-parallel-rank"

// setRank has an endpoint that is a rank serve the request, whatever a client has asked for. Of one that is none, and
// of "", the server decides.
func setRank(to host.GatewayStream, c *config.Config, addr string) {
	if in := c.Clusters.Endpoint; c.Shadow || !c.Ranks.Apart && (in == nil || !in.Ranks.Apart) {
		return
	}
	if rank, is := lb.RankOf(addr); is {
		to.SetRequestHeader(rankHeader, strconv.Itoa(rank))
		return
	}
	to.RemoveRequestHeader(rankHeader)
}
