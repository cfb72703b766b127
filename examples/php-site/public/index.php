<?php
// A site of one page. What is in public/ can be seen by everybody, this file's
// output for every address without a file of its own.
const VERSION = 1; // change it and commit: the next answer has the new one

header('Content-Type: text/plain');
printf("php-site version %d, PHP %s, asked for %s\n", VERSION, PHP_VERSION, $_SERVER['REQUEST_URI']);
