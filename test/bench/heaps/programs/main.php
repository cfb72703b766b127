<?php
// A program that uses memory in one of several ways. Behind php -S it answers one request.
if (PHP_SAPI === 'cli-server') {
    $rows = [];
    for ($i = 0; $i < 200; $i++) $rows[] = ['i' => $i, 'value' => str_repeat('x', 100)];
    echo json_encode($rows);
    return;
}
[, $work, $ram, $seconds] = $argv;
const MB = 1 << 20;
$began = microtime(true);
function member($id) { return ['id' => $id, 'name' => "member $id", 'roles' => [$id, $id + 1], 'joined' => time()]; }
$all = [];
switch ($work) {
    case 'bot': // members and the last messages of channels, and a message now and then
        $members = []; $channels = array_fill(0, 20, []);
        for ($id = 0; $id < 20000; $id++) $members[] = member($id);
        $message = ['content' => str_repeat('x', 1000), 'author' => member(1), 'embeds' => [['fields' => [['name' => 'a', 'value' => str_repeat('x', 500)]]]]];
        $step = function () use (&$members, &$channels, $message) {
            $channel = mt_rand(0, 19);
            $channels[$channel][] = json_decode(json_encode($message), true);
            if (count($channels[$channel]) > 200) array_shift($channels[$channel]);
            $id = mt_rand(0, 19999);
            $members[$id] = member($id);
        };
        break;
    case 'cache': // entries that are replaced
        for ($n = (int)(0.42 * $ram * MB / 10240); $n > 0; $n--) $all[] = str_repeat('x', 10000);
        $step = function () use (&$all) { $all[mt_rand(0, count($all) - 1)] = str_repeat('x', 10000); };
        break;
    case 'garbage': // what nobody keeps
        $step = function () { $rows = []; for ($i = 0; $i < 100; $i++) $rows[] = ['i' => $i, 'value' => str_repeat('x', 1000)]; };
        break;
    case 'buffers':
        for ($n = (int)(0.3 * $ram * MB / 65536); $n > 0; $n--) $all[] = str_repeat('x', 65536);
        $step = function () use (&$all) { $all[mt_rand(0, count($all) - 1)] = str_repeat('x', 65536); };
        break;
    case 'leak': // a third of the RAM in a second
        $step = function () use (&$all, $began, $ram) { if (count($all) * 10240 < (microtime(true) - $began) * $ram / 3 * MB) $all[] = str_repeat('x', 10000); };
        break;
}
for ($operations = 0; microtime(true) - $began < $seconds; $operations++) $step();
echo "operations $operations\n";
