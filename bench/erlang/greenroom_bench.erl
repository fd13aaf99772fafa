%% The workloads of ../workload in Erlang, as far as Erlang has what they need:
%% a process for each actor, integers as messages. What each workload does, and
%% how its counts are validated, is told there; the names of the figures are
%% those of ../workload/workload.go.
%%
%% erl -run greenroom_bench main WORKLOAD OPS ACTORS WINDOW_MS
%%
%% prints the figures as one line of JSON. A run whose counts are wrong says so
%% and exits with status 1.
-module(greenroom_bench).
-export([main/1]).

-define(BURST, 128).
-define(BACKLOG_MAX, 8000000).
-define(CREDIT_PARTS, 4).
-define(CREDIT_PART, 256).
-define(CHILDREN, 10).
-define(PERIOD, 1000000). % ns

main([Workload, Ops, Actors, Window]) ->
    Size = [list_to_integer(A) || A <- [Ops, Actors, Window]],
    try workload(Workload, Size) of
        Figures -> io:format("~s~n", [json(Figures)]), halt(0)
    catch
        throw:{wrong_count, Got, Want} ->
            io:format(standard_error, "wrong count: ~w were handled, ~w were sent~n", [Got, Want]),
            halt(1);
        Class:Reason:Stack ->
            io:format(standard_error, "~w: ~w~n~p~n", [Class, Reason, Stack]),
            halt(1)
    end.

workload("flood", [Ops, _, _]) -> flood(Ops, 1);
workload("fanin", [Ops, Actors, _]) -> flood(Ops, Actors);
workload("floodinside", [Ops, _, _]) -> flood_inside(Ops);
workload("pingpong", [Ops, _, _]) -> ping_pong(Ops);
workload("ring100", [Ops, Actors, _]) -> ring(Ops, Actors);
workload("ring100k", [Ops, Actors, _]) -> ring(Ops, Actors);
workload("ask", [Ops, Actors, _]) -> ask(Ops, Actors);
workload("ask64", [Ops, Actors, _]) -> ask(Ops, Actors);
workload("askinside", [Ops, _, _]) -> ask(Ops, 1);
workload("big", [Ops, Actors, _]) -> big(Ops, Actors);
workload("skynet", [_, Actors, _]) -> skynet(Actors);
workload("spawn", [_, Actors, _]) -> spawn_idle(Actors);
workload("blocking1000", [Ops, Actors, _]) -> blocking(Ops, Actors);
workload("blocked", [_, Actors, Window]) -> blocked(Actors, Window);
workload("fair", [_, _, Window]) -> fair(Window);
workload("flooded-neighbor", [_, _, Window]) -> neighbor(Window).

%% Figures.

json(Figures) ->
    Fields = [io_lib:format("\"~s\":~w", [Name, Value]) || {Name, Value} <- Figures],
    ["{", lists:join(",", Fields), "}"].

now_ns() -> erlang:monotonic_time(nanosecond).

%% Pass does that many operations and returns a fun that validates them, which
%% is not measured.
measure(Ops, Pass) ->
    Warm = Pass(max(1, Ops div 10)),
    Warm(),
    Began = now_ns(),
    Check = Pass(Ops),
    Took = now_ns() - Began,
    Check(),
    [{"ns/op", Took / Ops}].

check(Same, Same) -> ok;
check(Got, Want) -> throw({wrong_count, Got, Want}).

up_to(N) -> {N, N * (N - 1) div 2}.

%% flood, fanin.

counter(Senders, Owner) -> counter(Senders, Owner, Senders, 0, 0).

counter(Senders, Owner, 0, Count, Sum) ->
    Owner ! {tally, Count, Sum},
    counter(Senders, Owner);
counter(Senders, Owner, Missing, Count, Sum) ->
    receive
        last -> counter(Senders, Owner, Missing - 1, Count, Sum);
        N -> counter(Senders, Owner, Missing, Count + 1, Sum + N)
    end.

%% A queue that may become long belongs outside of the process's heap, says the
%% documentation of message_queue_data.
spawn_flooded(Fun) -> spawn_opt(Fun, [{message_queue_data, off_heap}]).

flood(Ops, Senders) ->
    Owner = self(),
    To = spawn_flooded(fun() -> counter(Senders, Owner) end),
    measure(Ops, fun(N) ->
        Each = max(1, N div Senders),
        [spawn(fun() -> send(To, 0, Each), To ! last end) || _ <- lists:seq(1, Senders)],
        {Count, Sum} = receive {tally, C, S} -> {C, S} end,
        {OneCount, OneSum} = up_to(Each),
        fun() -> check({Count, Sum}, {Senders * OneCount, Senders * OneSum}) end
    end).

send(_, End, End) -> ok;
send(To, I, End) -> To ! I, send(To, I + 1, End).

flood_inside(Ops) ->
    Owner = self(),
    To = spawn_flooded(fun() -> counter(1, Owner) end),
    Sender = spawn(fun() -> burst(To) end),
    measure(Ops, fun(N) ->
        Sender ! {start, N},
        {Count, Sum} = receive {tally, C, S} -> {C, S} end,
        fun() -> check({Count, Sum}, up_to(N)) end
    end).

burst(To) -> receive {start, N} -> burst(To, 0, N) end.

burst(To, End, End) ->
    To ! last,
    burst(To);
burst(To, Next, End) ->
    Stop = min(Next + ?BURST, End),
    send(To, Next, Stop),
    self() ! continue,
    receive continue -> burst(To, Stop, End) end.

%% pingpong, ring100, ring100k.

ping_pong(Ops) ->
    Owner = self(),
    Pong = spawn(fun() -> pong(0, 0) end),
    Ping = spawn(fun() -> ping(Pong, Owner) end),
    measure(Ops, fun(N) ->
        Ping ! N,
        receive done -> ok end,
        fun() ->
            Pong ! {tally, Owner},
            check(receive {tally, C, S} -> {C, S} end, up_to(N))
        end
    end).

ping(Pong, Owner) ->
    receive
        0 -> Owner ! done;
        N -> Pong ! {self(), N - 1}
    end,
    ping(Pong, Owner).

pong(Count, Sum) ->
    receive
        {tally, Owner} -> Owner ! {tally, Count, Sum}, pong(0, 0);
        {Ping, N} -> Ping ! N, pong(Count + 1, Sum + N)
    end.

ring(Ops, Actors) ->
    Owner = self(),
    Last = spawn(fun() -> receive {next, First} -> link_of_ring(First, Owner, 0) end end),
    Links = lists:foldl(fun(_, [Next | _] = All) ->
        [spawn(fun() -> link_of_ring(Next, Owner, 0) end) | All]
    end, [Last], lists:seq(2, Actors)),
    First = hd(Links),
    Last ! {next, First},
    measure(Ops, fun(N) ->
        First ! N,
        receive done -> ok end,
        fun() -> check_hops(Links, N, Actors) end
    end).

link_of_ring(Next, Owner, Hops) ->
    receive
        {hops, Ref} -> Owner ! {Ref, Hops}, link_of_ring(Next, Owner, 0);
        1 -> Owner ! done, link_of_ring(Next, Owner, Hops + 1);
        N -> Next ! N - 1, link_of_ring(Next, Owner, Hops + 1)
    end.

check_hops(Links, N, Actors) ->
    lists:foldl(fun(Link, I) ->
        Ref = make_ref(),
        Link ! {hops, Ref},
        Extra = case I < N rem Actors of true -> 1; false -> 0 end,
        check(receive {Ref, Hops} -> Hops end, N div Actors + Extra),
        I + 1
    end, 0, Links).

%% ask, ask64, askinside: to ask from outside and from inside is the same here.

ask(Ops, Askers) ->
    Owner = self(),
    Server = spawn(fun() -> server(0) end),
    measure(Ops, fun(N) ->
        Each = max(1, N div Askers),
        [spawn(fun() -> ask_many(Server, 0, Each), Owner ! asked end) || _ <- lists:seq(1, Askers)],
        [receive asked -> ok end || _ <- lists:seq(1, Askers)],
        fun() ->
            Server ! {tally, Owner},
            check(receive {tally, C} -> C end, Each * Askers)
        end
    end).

server(Handled) ->
    receive
        {Ref, From, N} -> From ! {Ref, N + 1}, server(Handled + 1);
        {tally, Owner} -> Owner ! {tally, Handled}, server(0)
    end.

ask_many(_, End, End) -> ok;
ask_many(Server, I, End) ->
    Ref = make_ref(),
    Server ! {Ref, self(), I},
    Want = I + 1,
    receive {Ref, Want} -> ok end,
    ask_many(Server, I + 1, End).

%% big.

big(Ops, Actors) ->
    Owner = self(),
    Pids = [spawn(fun() -> pinger_begin(Owner, I, Actors) end) || I <- lists:seq(0, Actors - 1)],
    All = list_to_tuple(Pids),
    [P ! {all, All} || P <- Pids],
    measure(Ops, fun(N) ->
        Each = max(1, N div Actors),
        [P ! {start, Each} || P <- Pids],
        [receive finished -> ok end || _ <- Pids],
        fun() ->
            [P ! tally || P <- Pids],
            Pings = [receive {tally, C} -> C end || _ <- Pids],
            check(lists:sum(Pings), Each * Actors)
        end
    end).

pinger_begin(Owner, I, Actors) ->
    receive {all, All} -> pinger(Owner, All, I, Actors - 1, 0, 0, I + 1) end.

pinger(Owner, All, I, Others, Left, Pings, Random) ->
    receive
        {ping, From} ->
            From ! pong,
            pinger(Owner, All, I, Others, Left, Pings + 1, Random);
        pong when Left > 1 ->
            pinger(Owner, All, I, Others, Left - 1, Pings, ping_other(All, I, Others, Random));
        pong ->
            Owner ! finished,
            pinger(Owner, All, I, Others, 0, Pings, Random);
        {start, Each} ->
            pinger(Owner, All, I, Others, Each, Pings, ping_other(All, I, Others, Random));
        tally ->
            Owner ! {tally, Pings},
            pinger(Owner, All, I, Others, Left, 0, Random)
    end.

ping_other(All, I, Others, Random) ->
    Next = Random * 48271 rem 2147483647,
    To = case Next rem Others of
        J when J >= I -> J + 2;
        J -> J + 1
    end,
    element(To, All) ! {ping, self()},
    Next.

%% skynet.

skynet(Leaves) ->
    tree(min(Leaves, 1000)),
    Began = now_ns(),
    Actors = tree(Leaves),
    [{"ns/op", (now_ns() - Began) / Actors}].

tree(Leaves) ->
    Owner = self(),
    Root = spawn(fun() -> node_of_tree(Leaves, Owner) end),
    Root ! 0,
    check(receive {sum, S} -> S end, Leaves * (Leaves - 1) div 2),
    nodes_of_tree(Leaves).

nodes_of_tree(1) -> 1;
nodes_of_tree(Leaves) -> Leaves + nodes_of_tree(Leaves div ?CHILDREN).

node_of_tree(1, Parent) ->
    receive First -> Parent ! {sum, First} end;
node_of_tree(Leaves, Parent) ->
    receive First -> grow(0, Leaves div ?CHILDREN, First, self()) end,
    Parent ! {sum, sum(?CHILDREN, 0)}.

grow(?CHILDREN, _, _, _) -> ok;
grow(I, Leaves, First, Self) ->
    Child = spawn(fun() -> node_of_tree(Leaves, Self) end),
    Child ! First + I * Leaves,
    grow(I + 1, Leaves, First, Self).

sum(0, Sum) -> Sum;
sum(Missing, Sum) -> receive {sum, S} -> sum(Missing - 1, Sum + S) end.

%% spawn. The memory is what the virtual machine counts in all, after a whole
%% collection of this process; the others are as they are when they wait.

spawn_idle(Actors) ->
    Owner = self(),
    Handled = atomics:new(1, []),
    Idle = fun Loop() ->
        receive _ -> ok end,
        case atomics:add_get(Handled, 1, 1) of
            Actors -> Owner ! done;
            _ -> ok
        end,
        Loop()
    end,
    erlang:garbage_collect(),
    Before = erlang:memory(total),
    Began = now_ns(),
    Pids = [spawn(Idle) || _ <- lists:seq(1, Actors)],
    Spawned = now_ns(),
    [P ! 1 || P <- Pids],
    receive done -> ok end,
    Greeted = now_ns(),
    erlang:garbage_collect(),
    Bytes = erlang:memory(total) - Before,
    check(atomics:get(Handled, 1), Actors),
    [{"ns/op", (Spawned - Began) / Actors}, {"first ns", (Greeted - Spawned) / Actors},
     {"B/actor", Bytes / length(Pids)}, {"actors", Actors}].

%% blocking1000, blocked.

sleeper(Owner, Ms) -> receive {start, Each} -> sleeper(Owner, Ms, Each, 0, 0) end.

sleeper(Owner, Ms, Each, Each, Sum) ->
    Owner ! {slept, Each, Sum},
    sleeper(Owner, Ms);
sleeper(Owner, Ms, Each, Count, Sum) ->
    receive
        N when is_integer(N) ->
            timer:sleep(Ms),
            sleeper(Owner, Ms, Each, Count + 1, Sum + N)
    end.

sleepers(Actors, Ms) ->
    Owner = self(),
    [spawn(fun() -> sleeper(Owner, Ms) end) || _ <- lists:seq(1, Actors)].

lull(Pids, Each) ->
    [P ! {start, Each} || P <- Pids],
    [[P ! I || P <- Pids] || I <- lists:seq(0, Each - 1)],
    ok.

slept(Pids) -> [receive {slept, C, S} -> {C, S} end || _ <- Pids].

blocking(Ops, Actors) ->
    Pids = sleepers(Actors, 1),
    measure(Ops, fun(N) ->
        Each = max(1, N div Actors),
        lull(Pids, Each),
        Tallies = slept(Pids),
        fun() -> [check(T, up_to(Each)) || T <- Tallies] end
    end).

blocked(Actors, Window) ->
    Each = max(1, Window div 50),
    Pids = sleepers(Actors, 50),
    Quiet = quiet_actor(),
    Began = now_ns(),
    lull(Pids, Each),
    Delays = tell_quiet(Quiet, Window),
    [check(T, up_to(Each)) || T <- slept(Pids)],
    [{"drain ms", (now_ns() - Began) / 1.0e6} | Delays].

%% fair.

fair(Window) ->
    Owner = self(),
    Flags = atomics:new(3, []), % over, handled, capped
    Rounds = rounds(),
    Flooded = spawn_flooded(fun() -> flooded(Flags, Rounds, Owner, 2, 0, 0) end),
    Quiet = quiet_actor(),
    [spawn(fun() -> Owner ! {sent, produce(Flooded, Flags, 0)} end) || _ <- [1, 2]],
    Began = now_ns(),
    Delays = tell_quiet(Quiet, Window),
    Took = now_ns() - Began,
    Handled = atomics:get(Flags, 2),
    atomics:put(Flags, 1, 1),
    A = receive {sent, S1} -> S1 end,
    B = receive {sent, S2} -> S2 end,
    {CountA, SumA} = up_to(A),
    {CountB, SumB} = up_to(B),
    check(receive {tally, C, S} -> {C, S} end, {CountA + CountB, SumA + SumB}),
    Capped = [{"backlog capped", 1} || atomics:get(Flags, 3) =:= 1],
    [{"flood/s", Handled * 1.0e9 / Took}, {"backlog", A + B - Handled}] ++ Capped ++ Delays.

flooded(_, _, Owner, 0, Count, Sum) ->
    Owner ! {tally, Count, Sum};
flooded(Flags, Rounds, Owner, Producers, Count, Sum) ->
    receive
        last -> flooded(Flags, Rounds, Owner, Producers - 1, Count, Sum);
        N ->
            case atomics:get(Flags, 1) of
                0 -> spin(Rounds, 1);
                1 -> ok
            end,
            atomics:put(Flags, 2, Count + 1),
            flooded(Flags, Rounds, Owner, Producers, Count + 1, Sum + N)
    end.

produce(To, Flags, Sent) ->
    send(To, Sent, Sent + 256),
    case atomics:get(Flags, 1) of
        1 -> To ! last, Sent + 256;
        0 -> pause(Flags, Sent + 256), produce(To, Flags, Sent + 256)
    end.

pause(Flags, Sent) ->
    case 2 * Sent - atomics:get(Flags, 2) > ?BACKLOG_MAX andalso atomics:get(Flags, 1) =:= 0 of
        true -> atomics:put(Flags, 3, 1), timer:sleep(1), pause(Flags, Sent);
        false -> ok
    end.

spin(0, X) -> X;
spin(Rounds, X) -> spin(Rounds - 1, X * 48271 rem 2147483647).

%% How many rounds take a microsecond: the best of some tries.
rounds() ->
    Best = lists:min([begin
        Began = now_ns(),
        spin(4096, 1),
        max(1, now_ns() - Began)
    end || _ <- lists:seq(1, 32)]),
    max(1, 4096 * 1000 div Best).

%% flooded-neighbor.

neighbor(Window) ->
    Owner = self(),
    Flags = atomics:new(2, []), % over, handled
    Flooder = spawn(fun() -> receive {to, To} -> flooder(To, Flags, Owner, 0, 0) end end),
    Flooded = spawn(fun() -> acknowledge(Flooder, Flags, Owner, 0, 0) end),
    Flooder ! {to, Flooded},
    Quiet = quiet_actor(),
    [Flooder ! ?CREDIT_PART || _ <- lists:seq(1, ?CREDIT_PARTS)],
    Began = now_ns(),
    Delays = tell_quiet(Quiet, Window),
    Handled = atomics:get(Flags, 2),
    Took = now_ns() - Began,
    atomics:put(Flags, 1, 1),
    Sent = receive {sent, S1} -> S1 end,
    check(receive {tally, C, S} -> {C, S} end, up_to(Sent)),
    [{"flood/s", Handled * 1.0e9 / Took} | Delays].

flooder(To, _, Owner, Sent, ?CREDIT_PARTS) ->
    Owner ! {sent, Sent},
    To ! last;
flooder(To, Flags, Owner, Sent, Returned) ->
    receive
        Credit ->
            case atomics:get(Flags, 1) of
                1 -> flooder(To, Flags, Owner, Sent, Returned + 1);
                0 ->
                    send(To, Sent, Sent + Credit),
                    flooder(To, Flags, Owner, Sent + Credit, Returned)
            end
    end.

acknowledge(Flooder, Flags, Owner, Count, Sum) ->
    receive
        last -> Owner ! {tally, Count, Sum};
        N ->
            case (Count + 1) rem ?CREDIT_PART of
                0 -> atomics:put(Flags, 2, Count + 1), Flooder ! ?CREDIT_PART;
                _ -> ok
            end,
            acknowledge(Flooder, Flags, Owner, Count + 1, Sum + N)
    end.

%% The quiet actor. Erlang's timers have a resolution of a millisecond, which
%% the e2e figures show.

quiet_actor() ->
    Owner = self(),
    spawn(fun() -> quiet(Owner, []) end).

quiet(Owner, Handled) ->
    receive
        last -> Owner ! {handled, Handled};
        N -> quiet(Owner, [{N, now_ns()} | Handled])
    end.

tell_quiet(Quiet, Window) ->
    Began = now_ns(),
    Told = tell_quiet(Quiet, Began, Window * 1000000, ?PERIOD, 0, []),
    Quiet ! last,
    Handled = receive {handled, H} -> H end,
    check([N || {N, _, _} <- Told], [N || {N, _} <- Handled]),
    Pairs = lists:zip(Told, Handled),
    Plain = lists:sort([(At - T) / 1000 || {{_, _, T}, {_, At}} <- Pairs]),
    E2E = lists:sort([(At - Began - D) / 1000 || {{_, D, _}, {_, At}} <- Pairs]),
    [{"n", length(Told)},
     {"p50 us", percentile(Plain, 50)}, {"p99 us", percentile(Plain, 99)}, {"max us", lists:last(Plain)},
     {"e2e p50 us", percentile(E2E, 50)}, {"e2e p99 us", percentile(E2E, 99)}, {"e2e max us", lists:last(E2E)}].

tell_quiet(_, _, End, Due, _, Told) when Due >= End -> Told;
tell_quiet(Quiet, Began, End, Due, N, Told) ->
    case Due - (now_ns() - Began) of
        Wait when Wait > 0 -> timer:sleep((Wait + 999999) div 1000000);
        _ -> ok
    end,
    Now = now_ns(),
    Quiet ! N,
    Next = max(Due, (Now - Began) div ?PERIOD * ?PERIOD) + ?PERIOD,
    tell_quiet(Quiet, Began, End, Next, N + 1, [{N, Due, Now} | Told]).

percentile(Sorted, P) ->
    lists:nth(max(1, ceil(P / 100 * length(Sorted))), Sorted).
