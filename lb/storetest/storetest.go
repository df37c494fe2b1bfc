// Package storetest is the conformance suite of [lb.Store], which every store must pass.
package storetest

import (
	"testing"
)

// cases are a part of the suite. Each has a world of its own.
type cases[W any] []struct {
	name string
	run  func(*testing.T, W)
}

// on runs the cases, each on a fresh backend, in what in makes of a world.
func (all cases[W]) on(t *testing.T, open func(*testing.T) Backend, in func(*world) W) {
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			c.run(t, in((&world{open: func() Backend { return open(t) }}).another(t)))
		})
	}
}

func plain(w *world) *world { return w }

func queueing(w *world) *line { return &line{world: w} }

var suite = cases[*world]{
	{"chooses the least loaded", testLeast},
	{"sees the other owners", testShared},
	{"keeps to the cap", testCap},
	{"keeps to the cap in tokens", testTokenCap},
	{"chooses a last resort last", testLastResort},
	{"respects weights", testWeights},
	{"counts tokens", testTokens},
	{"accepts any number of tokens", testManyTokens},
	{"resolves ties evenly", testTies},
	{"releases once", testReleaseOnce},
	{"release may come first", testReleaseFirst},
	{"reserving twice counts once", testReserveTwice},
	{"amends", testAmend},
	{"scopes are independent", testScopes},
	{"scopes come and go", testScopesInTurn},
	{"endpoints come and go", testChurn},
	{"returns a dead owner's leases", testDeadOwner},
	{"heartbeats keep leases", testHeartbeats},
	{"leases are counted again when heartbeats resume", testResumed},
	{"a release while presumed dead", testResumedRelease},
	{"random histories", testRandom},
	{"sends a prompt where it is cached", testPrefix},
	{"weighs cached tokens against load", testPrefixLoad},
	{"forgets prompts", testPrefixForget},
	{"records where a prompt was served", testPrefixRecord},
	{"knows where a prompt ended in the middle of a longer one", testPrefixInner},
	{"matches expire after the TTL of their endpoint", testPrefixTTL},
	{"looks up no prompt without blocks, length or TTL", testPrefixNone},
	{"finds the end of a prompt behind a common beginning", testPrefixDeep},
	{"records any number of prompts", testPrefixBounds},
	{"distinguishes conversations that begin alike", testPrefixMany},
	{"retains conversations behind shared prompts", testPrefixShared},
	{"records branches at any block", testPrefixBranches},
	{"retains branches of branches", testPrefixTree},
	{"sends a session home", testHome},
	{"bounds the load of homes", testHomeBound},
	{"settles ties by the home", testHomeTies},
	{"a flood of one tenant does not evict the prompts of another", testPrefixFlood},
}

// Run runs the suite; open returns a fresh backend. The previous one is not used after that.
func Run(t *testing.T, open func(t *testing.T) Backend) { suite.on(t, open, plain) }

var queueSuite = cases[*line]{
	{"a request waits and is granted what another owner releases", testQueueGrant},
	{"a request that does not wait is refused", testQueueFull},
	{"first come first served over all owners", testQueueFIFO},
	{"nobody overtakes a grant that was not claimed yet", testQueueOvertake},
	{"a request waits only for what it may use", testQueueCandidates},
	{"a request without candidates waits until it is planned anew", testQueueNowhere},
	{"nothing is hopeless that waits without candidates", testQueueNowhereLong},
	{"scopes have queues of their own", testQueueScopes},
	{"a higher cap lets waiting requests go first", testQueueCaps},
	{"a lower cap holds", testQueueLowerCap},
	{"a lease that moves away frees its endpoint", testQueueAmend},
	{"a request waits for tokens", testQueueTokens},
	{"a lease that counts for less frees tokens", testQueueFewerTokens},
	{"the wait is over", testQueueMax},
	{"a released request leaves the queue", testQueueRelease},
	{"a released request gives back a grant that it has not claimed", testQueueReleaseGranted},
	{"a dead owner's requests leave the queue", testQueueDeadOwner},
	{"a dead owner's grants are returned", testQueueDeadGrant},
	{"a silent owner's turns go to others", testQueueSilentTurn},
	{"a silent owner begins to wait again", testQueueSilentBegins},
	{"a silent owner's grants are given to others", testQueueSilentGrants},
	{"a silent owner keeps what it knows of", testQueueSilentKnows},
	{"random histories with silent owners", testQueueSilentRandom},
	{"heartbeats keep waiting requests", testQueueHeartbeats},
	{"a request that is reserved anew keeps its place", testQueueSince},
	{"a request that is planned anew is never out of the queue", testQueueInstead},
	{"the queue has a length", testQueueLength},
	{"a tenant has a part of the queue", testQueueTenantLength},
	{"a class below its part evicts the youngest of another one", testQueueEviction},
	{"in a full queue a tenant with many makes room for one with few", testQueueFlood},
	{"in a full queue each class has its part", testQueueParts},
	{"who holds most of a full queue makes room for who has nothing there", testQueueMajority},
	{"a class has places that others cannot take", testQueueReserved},
	{"a hopeless request is refused at once", testQueueHopeless},
	{"a strictly higher class is not hopeless", testQueueHopelessClass},
	{"a tenant is not hopeless behind another one", testQueueHopelessTenant},
	{"nothing is hopeless while an endpoint is open", testQueueHopelessOpen},
	{"statistics", testQueueStats},
	{"classes share by weight", testQueueWeights},
	{"a class that comes late has no claim", testQueueIdleClass},
	{"a strictly higher class goes first", testQueueStrict},
	{"a class that has waited long has a part", testQueueAging},
	{"tenants of a class take turns", testQueueTenants},
	{"tenants share what was served", testQueueServedTenants},
	{"programs share what their tenant was served", testQueueServedPrograms},
	{"new programs get no more than others", testQueueServedFresh},
	{"classes share what was served", testQueueServedClasses},
	{"what was served counts once", testQueueServedOnce},
	{"a warm prefix passes others", testQueuePass},
	{"a warm prefix passes only so many others", testQueueSkip},
	{"nobody is passed for ever", testQueuePassed},
	{"a warm prefix passes other programs by a request", testQueuePassedProgram},
	{"a warm prefix is patient", testQueuePatience},
	{"is told of the pieces of its prompt that are known", testQueueInner},
	{"no more patient than a prefix saves", testQueuePatienceSaved},
	{"patient while all are full", testQueuePatienceFull},
	{"a request is placed where it would have been refused", testQueueLateRoom},
	{"random histories of waiting requests", testQueueRandom},
	{"writes fail while requests wait", testQueueFaults},
}

// RunQueue runs the part of the suite that is about requests that wait; open returns a fresh backend. The previous one
// is not used after that.
func RunQueue(t *testing.T, open func(t *testing.T) Backend) { queueSuite.on(t, open, queueing) }

var budgetSuite = cases[*world]{
	{"shares by weight", testBudgetShares},
	{"a bucket starts full and refills", testBudgetBucket},
	{"a bucket that never refills", testBudgetNever},
	{"a bucket is shared by all owners", testBudgetOwners},
	{"requests a minute are limited", testBudgetRequests},
	{"a large request needs a full bucket", testBudgetLarge},
	{"caps hold", testBudgetCaps},
	{"a release frees the slot and gives back no tokens", testBudgetRelease},
	{"settled by what was used", testBudgetSettle},
	{"what no endpoint has seen is given back", testBudgetUnused},
	{"who was not charged corrects nothing", testBudgetUncharged},
	{"restricted by its own word", testBudgetRestrict},
	{"a target that has closed itself for long is asked by one request", testBudgetAsks},
	{"its own word shrinks a bucket", testBudgetShrink},
	{"limits apply at once", testBudgetLimits},
	{"a dead owner's slots are returned, its charges stay", testBudgetDeadOwner},
	{"endpoints come and go", testBudgetChurn},
	{"scopes are independent", testBudgetScopes},
	{"without a budget nothing is corrected", testBudgetNone},
	{"random histories", testBudgetRandom},
	{"nothing is given twice, whoever acts in between", testBudgetInterleaved},
}

// RunBudget runs the part of the suite that is about budgets; open returns a fresh backend. The previous one is not
// used after that.
func RunBudget(t *testing.T, open func(t *testing.T) Backend) { budgetSuite.on(t, open, plain) }

var budgetQueueSuite = cases[*line]{
	{"a request waits until its bucket has refilled", testBudgetWait},
	{"what is released is granted by share", testBudgetWaitShares},
	{"a small request goes where a large one cannot", testBudgetWaitSmall},
	{"with an age bonus a large request is not passed for ever", testBudgetWaitLarge},
	{"without an age bonus it is", testBudgetWaitStarved},
	{"who does not wait leaves what is set aside", testBudgetAside},
	{"a target that opens again serves who waits", testBudgetWaitClosed},
	{"a grant that is not claimed is given back with its tokens", testBudgetWaitReturned},
	{"what a silent owner was charged is given back", testBudgetWaitSilent},
	{"a hopeless request is told when the bucket has refilled", testBudgetWaitFull},
	{"random histories of waiting requests", testBudgetWaitRandom},
}

// RunBudgetQueue runs the part of the suite that is about requests that wait for budgets; open returns a fresh backend.
// The previous one is not used after that.
func RunBudgetQueue(t *testing.T, open func(t *testing.T) Backend) {
	budgetQueueSuite.on(t, open, queueing)
}

var tenantSuite = cases[*world]{
	{"each has a budget of its own", testTenantsApart},
	{"all owners share it", testTenantOwners},
	{"settled by what was used", testTenantSettle},
	{"a release may come first", testTenantReleaseFirst},
	{"a dead owner's slots are returned", testTenantDeadOwner},
	{"any number of them", testTenantsMany},
	{"a budget in use is not forgotten", testTenantsInUse},
	{"random histories", func(t *testing.T, w *world) { testBudgetsRandom(t, w, tenants) }},
}

// RunTenants runs the part of the suite that is about the budgets of tenants; open returns a fresh backend. The
// previous one is not used after that.
func RunTenants(t *testing.T, open func(t *testing.T) Backend) { tenantSuite.on(t, open, plain) }

var taskSuite = cases[*work]{
	{"a task counts until it is completed", testTaskComplete},
	{"a completed task is settled by what it used", testTaskSettle},
	{"a repeated key gives the same task", testTaskKey},
	{"the key of a task that has ended gives another one", testTaskEndedKey},
	{"a key whose endpoint is no candidate gives another task", testTaskOtherKey},
	{"a task that is not renewed is abandoned", testTaskAbandoned},
	{"a key is that of one call", testTaskOtherCall},
	{"a task that is completed late is charged", testTaskLate},
	{"a task closes its target", testTaskCloses},
	{"a task that is renewed lives", testTaskRenewed},
	{"a task belongs to no owner", testTaskDeadOwner},
	{"tasks and requests share slots and buckets", testTaskShared},
	{"a refused task is told when to ask again", testTaskRefused},
	{"tokens are set aside for who was refused first", testTaskAside},
	{"tasks that are refused by a cap come one after the other", testTaskBehind},
	{"callers that are not remembered are told different times", testTaskSpread},
	{"nobody waits for a caller that does not come back", testTaskAsideExpires},
	{"nobody waits for longer than a caller was told at most", testTaskForgotten},
	{"nothing is set aside for a caller whose share of the slots is taken", testTaskShare},
	{"who waits at its own share makes room for others", testTaskSharePlaces},
	{"who waits at its own share is before others that do", testTaskShareAhead},
	{"who has waited at its own share keeps its place", testTaskShareWaits},
	{"an unknown scope has no tasks", testTaskUnknown},
	{"many tasks end", testTaskMany},
	{"tasks that have ended keep none out", testTaskRoom},
	{"a task that is refused passes on what was given back", testTaskPassesOn},
	{"limits are set at run time", testOverrides},
	{"limits are set for a bounded number of targets", testOverridesAreBounded},
	{"levels tell what is in flight, left and closed", testLevels},
	{"random histories of tasks", testTaskRandom},
}

// RunTasks runs the part of the suite that is about tasks; open returns a fresh backend whose stores are
// [lb.TaskStore]s, too. The previous one is not used after that.
func RunTasks(t *testing.T, open func(t *testing.T) Backend) {
	taskSuite.on(t, open, func(w *world) *work { return &work{world: w} })
}
